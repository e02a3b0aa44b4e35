"""What tests of reports share: folders of every kind, made without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.records.made_up import measured_encoder, measured_task
from tests.studies.test_figures import DRAWN, read_table

from frostline.records import LayerScore, LayerScores, Plan, Recipe, TrialResult
from frostline.records.budget import Budget
from frostline.records.cost import Cost
from frostline.records.difference import Difference
from frostline.records.encoder_and_task import TaskKind, TunedEncoder, TunedTask
from frostline.records.prediction import PredictedRow
from frostline.records.proposal import Proposal
from frostline.records.run import Decision, Judged, RaceEntry, RunRecord
from frostline.records.tuned import Parameters, TuningResult
from frostline.trials.store import Store

ABOUT = {"format": 1, "versions": {"python": "3"}, "seed": 0, "threads": 1}


def make_study(folder: Path, name: str, *, is_over: bool = True, families: dict[str, str] | None = None) -> Path:
    """A study's folder with the tables that its figures are tested with."""
    folder.mkdir(parents=True)
    asked = {"study": name, "encoders": {"tiny": "abc"}, "tasks": {"letters": ["f00d", "accuracy"]}, "seeds": 2,
             "families": families or {}}  # fmt: skip
    (folder / "study.json").write_text(json.dumps(asked))
    Store(folder / "store.sqlite").close()
    if is_over:
        found = [read_table(path).to_json() for path in sorted((DRAWN / name).glob("*.csv"))]
        (folder / "tables.json").write_text(json.dumps(found))
        about = {**ABOUT, "kind": "study", "command": ["frostline", "study", name]}
        (folder / "frostline.json").write_text(json.dumps(about))
    return folder


def some_scores(name: str = "letters") -> LayerScores:
    """A measurement of three layers, with an interval, what chance gives, and similarities."""
    values = (3.0, 2.0, 1.0, 1.2)
    score = LayerScore(
        name="variability", better="low", values=values, low=tuple(value - 0.3 for value in values),
        high=tuple(value + 0.3 for value in values), tied=(2, 3), nulls={"shuffled": (9.0, 9.0, 9.0, 9.0)},
        summary="How spread out classes are.", paper="1",
    )  # fmt: skip
    alone = LayerScore(name="fisher", better="high", values=(None, 0.1, 0.2, 0.9), summary="How much it matters.")
    matrix = tuple(tuple(1 - abs(one - other) / 10 for other in range(4)) for one in range(4))
    return LayerScores(
        encoder=measured_encoder(3), task=measured_task(name),
        pooling="mean", rows="train", examples=100, max_length=512, truncated=0, seed=0,
        scores={"variability": score, "fisher": alone}, similarity={"mean": matrix}, notes=("a note",),
    )  # fmt: skip


def make_measurement(folder: Path, scores: LayerScores | None = None) -> Path:
    """A measurement's folder."""
    folder.mkdir(parents=True)
    (folder / "scores.json").write_text(json.dumps((scores or some_scores()).to_json()))
    about = {**ABOUT, "kind": "measurement", "command": ["frostline", "measure", "my data.csv"]}
    (folder / "frostline.json").write_text(json.dumps(about))
    return folder


def make_tuned(folder: Path, *, kind: TaskKind = "classification") -> Path:
    """The folder of a model that was tuned without a race."""
    folder.mkdir(parents=True)
    is_number = kind == "regression"
    metric = "pearson" if is_number else "accuracy"
    history = [{"epoch": epoch, "loss": 1 / epoch, f"validation_{metric}": value, "validation_loss": 0.5}
               for epoch, value in ((1.0, 0.6), (2.0, 0.75), (3.0, 0.7))]  # fmt: skip
    result = TuningResult(
        encoder=TunedEncoder(name="tiny", revision="abc", layers=3),
        task=TunedTask(
            name="letters", fingerprint="f00d", metrics=(metric,), kind=kind, labels=("no", "yes"), pairs=False
        ),
        plan=Plan.span(2, 2, 2, because="it was asked for"),
        recipe=Recipe(),
        parameters=Parameters(total=1000, trainable=100),
        best=history[1],
        metrics={"validation": {metric: 0.75}, "test": {metric: 0.5}},
        audit="",
        notes=(),
        seconds={},
    )
    rows = []
    for row in range(8):
        sure = 0.5 + row / 20
        guess, other = ("yes", "no") if row % 3 else ("no", "yes")
        rows.append(
            PredictedRow(
                split="test",
                row=row,
                text=f"text {row}",
                label=row / 2 if is_number else "yes",
                prediction=row / 2 + (3.0 if row == 5 else 0.25) if is_number else guess,
                probabilities=None if is_number else {guess: sure, other: 1 - sure},
            )
        )
    (folder / "result.json").write_text(json.dumps(result.to_json()))
    (folder / "predictions.jsonl").write_text("\n".join(json.dumps(row.to_json()) for row in rows))
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, history)))
    (folder / "frostline.json").write_text(json.dumps({**ABOUT, "kind": "tuned", "command": ["frostline", "tune"]}))
    return folder


def some_cost(trainable: int) -> Cost:
    """What a plan costs that trains this many parameters."""
    return Cost(
        total=1000, trainable=trainable, stored=1000, stock=True, layers=3, forward_per_token=1.0,
        backward_per_token=2.0, frozen_flops=10.0, epoch_flops=10.0, epoch_flops_uncached=20.0, steps=4, epochs=3,
        cache=100, memory=1000, latency=1.0,
    )  # fmt: skip


def some_run() -> RunRecord:
    """A run of three plans, in which a cheap one is chosen."""
    plans = [
        Plan.span(2, 3, 3, because="the best layer"),
        Plan.full(3),
        Plan(layers=(), head=2, because="the cheapest"),
    ]
    found = ((0.80, 20.0, 300), (0.81, 60.0, 900), (0.70, 2.0, 30))
    race = tuple(
        RaceEntry(
            trial=f"trial-{place}", plan=plan, sources=("top-k:k=2",), train_rows=100, epochs=3, learning_rate=1e-4,
            validation={"accuracy": value}, seconds=seconds,
        )
        for place, (plan, (value, seconds, _)) in enumerate(zip(plans, found, strict=True))
    )  # fmt: skip
    proposals = [
        Proposal(plan=plan, sources=("top-k:k=2",), cost=some_cost(trainable))
        for plan, (_, _, trainable) in zip(plans, found, strict=True)
    ]
    gap = Difference(value=-0.5, low=-1.5, high=0.5)
    tests = (
        Judged(name="the choice", trial="trial-0", metrics={"accuracy": 0.79}, low=0.77, high=0.81,
               choice_minus_it=None),
        Judged(name="full fine-tuning", trial="trial-1", metrics={"accuracy": 0.795}, low=0.775, high=0.815,
               choice_minus_it=gap),
    )  # fmt: skip
    decision = Decision(
        chosen="trial-0", best="trial-1", good_enough=("trial-0", "trial-1"), why=("it is cheap",),
        against_best={"trial-0": Difference(value=-1.0, low=-2.0, high=0.0)},
    )  # fmt: skip
    return RunRecord(
        encoder=measured_encoder(3), task=measured_task(), plan=plans[0], recipe=Recipe(), budget=Budget(),
        decision=decision, given_up=("little",), tests=tests, race=(race,), failed=(), proposals=tuple(proposals),
        notes=("a note",), seconds={"race": 82.0}, validation_rows=100,
    )  # fmt: skip


def make_run(folder: Path) -> Path:
    """The folder of the run."""
    make_tuned(folder)
    (folder / "run.json").write_text(json.dumps(some_run().to_json()))
    (folder / "scores.json").write_text(json.dumps(some_scores().to_json()))
    (folder / "frostline.json").write_text(json.dumps({**ABOUT, "kind": "run", "command": ["frostline", "run"]}))
    return folder


def failed(reason: str) -> TrialResult:
    """A trial that failed."""
    return TrialResult(status="failed", reason=reason)


def told(folder: Path, name: str) -> Any:
    """The content of a JSON file."""
    return json.loads((folder / name).read_text())
