"""The tables of a race say how long each plan was trained, and why one is above another."""

from __future__ import annotations

import pytest

from frostline.records import Plan
from frostline.records.run import RaceEntry
from frostline.search.tables import race_table
from frostline.tasks.metrics import METRICS


def entry(plan: Plan, value: float, *, metric: str = "accuracy", **facts: object) -> RaceEntry:
    given = {"steps": 80, "epochs": 2, "learning_rate": 4e-4, **facts}
    return RaceEntry(trial=plan.name, plan=plan, sources=("middle",), train_rows=1_000, validation={metric: value},
                     seconds=3.25, **given)  # type: ignore[arg-type]  # fmt: skip


MIDDLE, UPPER, HEAD = Plan.span(3, 4, 6), Plan.span(4, 6, 6), Plan(layers=(), head=6)


def test_every_plan_has_its_steps_and_a_solved_head_has_none():
    entries = [entry(MIDDLE, 0.82, steps=1_280), entry(HEAD, 0.78, steps=None, epochs=1, learning_rate=0.0)]
    table = race_table(entries, [], METRICS["accuracy"])
    assert [(row["steps"], row["learning rate"]) for row in table.records()] == [("1,280", "0.0004"), ("solved", "")]


@pytest.mark.parametrize(("epochs", "words"), [(1, "1 epoch"), (3, "3 epochs")])
def test_entries_of_the_first_files_have_epochs_alone(epochs, words):
    table = race_table([entry(MIDDLE, 0.82, steps=None, epochs=epochs)], [], METRICS["accuracy"])
    assert table.records()[0]["steps"] == words


@pytest.mark.parametrize(("metric", "better", "worse"), [("accuracy", 0.82, 0.81), ("mse", 0.5, 0.6)])
def test_a_plan_above_one_with_a_better_score_is_explained(metric, better, worse):
    best_first = [entry(MIDDLE, better, metric=metric), entry(UPPER, worse, metric=metric)]
    assert race_table(best_first, [], METRICS[metric]).notes == ()
    (note,) = race_table(best_first[::-1], [], METRICS[metric]).notes
    assert "expected to be better on other rows" in note
