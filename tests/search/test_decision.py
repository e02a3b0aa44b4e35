"""The choice among plans, with made-up predictions: who is good enough, who is taken, and what is said about it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from tests.search.race_tools import made_up_proposal

from frostline.records import EncoderRef, Plan, Recipe, TaskRef, TrialResult, TrialSpec
from frostline.records.budget import Budget
from frostline.records.difference import Difference
from frostline.search.decision import decide, trade_off
from frostline.search.entries import Entry, Race
from frostline.search.judging import Judging
from frostline.tasks import Split, Task
from frostline.tasks.metrics import METRICS

DEPTH = 6


def task_of(rows, *, groups=None, metric="accuracy"):
    """A task whose validation rows are all of class 1, or have the value 1."""
    is_number = METRICS[metric].kinds == ("regression",)
    split = Split(
        texts=("ice",) * rows,
        labels=((1.0,) if is_number else (1,)) * rows,
        rows=tuple(range(1, rows + 1)),
        groups=groups,
    )
    return Task(
        name="made up", kind="regression" if is_number else "classification",
        label_names=() if is_number else ("no", "yes"), train=split, validation=split, test=None,
        metrics=(metric,), source="a test",
    )  # fmt: skip


def entry(plan, predictions, *, metric="accuracy", because="", expected=None, **cost):
    """A plan that predicts this for the validation rows."""
    plan = Plan(layers=plan.layers, head=plan.head, embeddings=plan.embeddings, method=plan.method, because=because)
    value = METRICS[metric]([1] * len(predictions), list(predictions))
    spec = TrialSpec(
        encoder=EncoderRef(name="tiny", revision="1"),
        task=TaskRef(name="made up", fingerprint="1", metrics=(metric,)),
        plan=plan,
        recipe=Recipe(learning_rate=1e-3),
    )
    signed = value if METRICS[metric].higher_is_better else -value
    return Entry(
        proposal=made_up_proposal(plan, "a strategy", **cost),
        spec=spec,
        result=TrialResult(
            status="done", metrics={"validation": {metric: value}}, predictions={"validation": tuple(predictions)}
        ),
        value=signed,
        expected=signed if expected is None else expected,
        loss=0.5,
        seconds=1.0,
        is_converged=True,
        rows=100,
    )


def wrong_at(rows, *places):
    """Predictions that are right but for these places."""
    return [0 if row in places else 1 for row in range(rows)]


def decided(entries, budget=None, *, task=None):
    """The decision, with entries in the order in which a race gives them."""
    ranked = sorted(entries, key=lambda one: (-one.expected, one.proposal.cost.price))
    race = Race(rounds=(tuple(ranked),))
    rows = len(ranked[0].result.predictions["validation"])
    return decide(race, Judging(task or task_of(rows)), budget or Budget(), depth=DEPTH)


FULL, TOP, SHORT, HEAD = Plan.full(DEPTH), Plan.span(5, 6, 6), Plan.span(2, 3, 3), Plan(layers=(), head=6)
ROWS = 1000


def many_rows():
    """Four plans on many rows: the best, two that are as good as it, and one that is far behind."""
    return {
        "full": entry(FULL, wrong_at(ROWS, *range(100)), price=100, stored=900, latency=1.0, trainable=90_000),
        "top": entry(TOP, wrong_at(ROWS, *range(101)), price=20, stored=900, latency=1.0, because="it is high up"),
        "short": entry(SHORT, wrong_at(ROWS, *range(102)), price=30, stored=500, latency=0.5),
        "head": entry(HEAD, wrong_at(ROWS, *range(300)), price=1, stored=400, latency=0.4),
    }


def test_the_cheapest_plan_that_is_shown_to_be_good_enough_is_taken():
    entries = many_rows()
    decision = decided(entries.values())
    assert decision.chosen == entries["top"].spec.id
    assert decision.best == entries["full"].spec.id
    assert set(decision.good_enough) == {entries[name].spec.id for name in ("full", "top", "short")}
    gap = decision.against_best[entries["head"].spec.id]
    assert gap.value == pytest.approx(-20.0)
    assert gap.high < -15


def test_why_a_cheaper_plan_was_taken_is_said_with_the_numbers():
    why = decided(many_rows().values()).why
    assert why[0] == (
        "(5, 6, 6): layers 5 and 6 of 6 and the head were trained; the embeddings and layers 1 to 4 stayed as "
        "pretrained; the head reads layer 6."
    )
    assert why[1] == "Proposed by a strategy: it is high up."
    assert re.fullmatch(
        r"It is the cheapest to tune of the 3 plans shown to be within 1 point of the best one, "
        r"\(1, 6, 6\) full: -0\.1 \(-0\.\d to [+-]0\.0\) points of accuracy on 1,000 validation rows\.",
        why[2],
    )


def test_a_soup_is_said_and_all_its_members_count_as_compute():
    entries = many_rows()
    top, full = entries["top"], entries["full"]
    recipe = replace(top.spec.recipe, schedule="averaged", soup=(1.0, 1.0, 1.0))
    soup = replace(top, spec=replace(top.spec, recipe=recipe))
    why = decided({**entries, "top": soup}.values()).why
    assert why[1] == "Its weights are the mean of those of 3 models that saw the rows in other orders."
    assert "; 20% of the compute (" in trade_off(top, full, "full fine-tuning", "")
    assert "; 60% of the compute (" in trade_off(soup, full, "full fine-tuning", "")


@pytest.mark.parametrize(("goal", "expected"), [("cheapest", "top"), ("smallest", "short"), ("fastest", "short")])
def test_the_goal_says_what_is_wanted_of_plans_that_are_good_enough(goal, expected):
    entries = many_rows()
    assert decided(entries.values(), Budget(goal=goal)).chosen == entries[expected].spec.id


def test_who_wants_the_best_gets_it_whatever_it_costs():
    entries = many_rows()
    decision = decided(entries.values(), Budget(goal="best"))
    assert decision.chosen == decision.best == entries["full"].spec.id
    assert decision.why[-1] == "It is the best of 4 plans on validation."


def test_a_wider_margin_lets_more_plans_in():
    entries = many_rows()
    assert decided(entries.values(), Budget(margin=30)).chosen == entries["head"].spec.id


def test_with_no_margin_only_the_best_is_good_enough():
    entries = many_rows()
    decision = decided(entries.values(), Budget(margin=0))
    assert decision.chosen == entries["full"].spec.id
    assert decision.good_enough == (entries["full"].spec.id,)


def test_of_plans_that_say_the_same_the_cheapest_counts_as_the_best_also_with_no_margin():
    dear = entry(FULL, wrong_at(50, 1, 2), price=100)
    cheap = entry(TOP, wrong_at(50, 1, 2), price=10)
    for margin in (0, 1):
        decision = decided([dear, cheap], Budget(margin=margin))
        assert decision.chosen == decision.best == cheap.spec.id
        assert decision.against_best[dear.spec.id] == Difference(value=0.0, low=0.0, high=0.0)


def test_of_equally_cheap_plans_that_are_good_enough_the_better_one_is_taken():
    best = entry(FULL, wrong_at(ROWS, *range(100)), price=100)
    better = entry(TOP, wrong_at(ROWS, *range(101)), price=10)
    worse = entry(SHORT, wrong_at(ROWS, *range(102)), price=10)
    assert decided([best, worse, better]).chosen == better.spec.id


def test_a_difference_that_few_rows_cannot_rule_out_leaves_the_best_plan_and_says_that_rows_are_missing():
    best = entry(FULL, wrong_at(20, 1), price=100)
    cheap = entry(TOP, wrong_at(20, 1, 2), price=10)
    decision = decided([best, cheap])
    assert decision.chosen == best.spec.id
    assert decision.good_enough == (best.spec.id,)
    assert decision.why[-1] == (
        "It is the best on validation; 20 validation rows are too few to show that any plan that needs less compute to "
        "tune is within 1 point of it. With more of them, or a larger `margin`, a cheaper plan may be chosen."
    )


def test_where_every_cheaper_plan_is_shown_to_be_worse_rows_are_not_said_to_be_missing():
    best = entry(FULL, wrong_at(ROWS, *range(100)), price=100)
    far_behind = entry(HEAD, wrong_at(ROWS, *range(300)), price=1)
    decision = decided([best, far_behind])
    assert decision.chosen == best.spec.id
    assert decision.why[-1] == (
        "It is the best on validation; every plan that needs less compute to tune is shown to be more than 1 point "
        "worse."
    )


def test_where_the_best_is_the_cheapest_no_cheaper_one_is_spoken_of():
    best = entry(TOP, wrong_at(20, 1), price=10)
    dear = entry(FULL, wrong_at(20, 1, 2, 3), price=100)
    for entries in ([best, dear], [best]):
        decision = decided(entries)
        assert decision.chosen == best.spec.id
        reason = "It is the best on validation, and the cheapest to tune of the plans that are good enough."
        assert decision.why[-1] == reason


def test_rows_that_belong_together_are_not_counted_as_so_many_pieces_of_evidence():
    """Five groups of 200 rows: one group's difference is no proof, where 1,000 rows alone would have been one."""
    best = entry(FULL, wrong_at(ROWS), price=100)
    cheap = entry(TOP, wrong_at(ROWS, 0, 1, 2, 3), price=10)  # all in the first group
    assert decided([best, cheap]).chosen == cheap.spec.id
    grouped = task_of(ROWS, groups=tuple(f"group {row // 200}" for row in range(ROWS)))
    assert decided([best, cheap], task=grouped).chosen == best.spec.id


def test_an_error_that_is_larger_by_less_than_the_margin_is_good_enough():
    best = entry(FULL, [1.1] * 50, metric="mse", price=100)  # 0.01
    cheap = entry(TOP, [1.12] * 50, metric="mse", price=10)  # 0.0144
    worse = entry(HEAD, [1.2] * 50, metric="mse", price=1)  # 0.04
    decision = decided([best, cheap, worse], Budget(margin=0.01), task=task_of(50, metric="mse"))
    assert decision.chosen == cheap.spec.id
    assert decision.against_best[worse.spec.id].value == pytest.approx(-0.03)  # in its own units, and worse is below 0
    assert "within 0.01 of the best one" in decision.why[-1]


def test_nothing_is_given_up_of_a_metric_in_units_of_its_own_unless_the_user_says_how_much():
    best, cheap = entry(FULL, [1.1] * 50, metric="mse", price=100), entry(TOP, [1.12] * 50, metric="mse", price=10)
    assert decided([best, cheap], task=task_of(50, metric="mse")).chosen == best.spec.id


def test_the_decision_is_plain_json():
    entries = many_rows()
    decision = json.loads(json.dumps(decided(entries.values()).to_json(), allow_nan=False))
    assert decision["chosen"] == entries["top"].spec.id
    assert decision["best"] == entries["full"].spec.id
    assert decision["against_best"][decision["best"]] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert len(decision["good_enough"]) == 3
    assert len(decision["why"]) == 3


# Trade-offs ----------------------------------------------------------------------------------------------------------


def test_what_a_choice_costs_and_saves_is_one_line():
    entries = many_rows()
    difference = METRICS["accuracy"].describe_difference(Difference(value=-0.25, low=-1.0, high=0.5), "test")
    assert trade_off(entries["short"], entries["full"], "full fine-tuning", difference) == (
        "vs full fine-tuning, (1, 6, 6): -0.2 (-1.0 to +0.5) points of test accuracy; 30% of the compute "
        "(1.0 s vs 1.0 s); 1,000 vs 90,000 trainable parameters; 50% of the latency"
    )


def test_equal_costs_large_factors_and_millions_are_short():
    large = entry(FULL, [1], price=100, latency=1.0, trainable=22_713_986)
    small = entry(TOP, [1], price=1, latency=1.0, trainable=5_472_002)
    assert trade_off(large, small, "the last layers", "+1.0") == (
        "vs the last layers, (5, 6, 6): +1.0; 100.0 times the compute (1.0 s vs 1.0 s); "
        "22.7M vs 5.5M trainable parameters; same latency"
    )


# Full fine-tuning as a proof -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "is_chosen"),
    [(60, True), (95, False), (100, False)],
    ids=["far better", "better by less than the margin", "as good"],
)
def test_full_fine_tuning_replaces_the_choice_only_if_it_is_shown_to_be_better_by_more_than_the_margin(
    wrong, is_chosen
):
    top = entry(TOP, wrong_at(ROWS, *range(100)), price=10)
    full = entry(FULL, wrong_at(ROWS, *range(wrong)), price=100, joins_late=True)
    decision = decided([top, full])
    assert decision.is_proof is is_chosen
    assert decision.chosen == (full if is_chosen else top).spec.id
    assert decision.proof.value == pytest.approx((100 - wrong) / 10)
    sentence = decision.why[-1]
    assert sentence.startswith("Full fine-tuning is better than" if is_chosen else "Full fine-tuning minus the choice:")


def test_a_large_difference_on_few_rows_shows_nothing():
    top, full = entry(TOP, wrong_at(20, 1, 2), price=10), entry(FULL, wrong_at(20, 3), price=100, joins_late=True)
    decision = decided([top, full])
    assert decision.proof.value == pytest.approx(5)
    assert decision.chosen == top.spec.id
    assert decision.best == full.spec.id


def test_the_proof_names_the_plan_that_it_is_compared_with_where_that_is_not_the_best_of_the_race():
    best = entry(TOP, wrong_at(ROWS, *range(100)), price=50)
    cheap = entry(HEAD, wrong_at(ROWS, *range(101)), price=10)  # as good within the margin
    full = entry(FULL, wrong_at(ROWS, *range(40)), price=100, joins_late=True)
    assert decided([best, cheap]).chosen == cheap.spec.id
    decision = decided([full, best, cheap])
    assert decision.is_proof
    assert decision.proof.value == pytest.approx(100 * 61 / ROWS)
    assert f"the choice of the race, {HEAD.name}," in decision.why[-1]


def test_the_plan_that_is_expected_to_be_the_best_leads_also_if_another_is_luckier():
    usual = entry(TOP, wrong_at(100, *range(20)), expected=0.80)
    lucky = entry(SHORT, wrong_at(100, *range(19)), expected=0.79, price=50)
    decision = decided([usual, lucky])
    assert (decision.chosen, decision.best) == (usual.spec.id, lucky.spec.id)
    assert decision.why[-1] == (
        "Its layers do best on most tasks, and 100 validation rows are too few to show that (2, 3, 3) is better on "
        "this one: +1.0 (+0.0 to +3.0) points of accuracy."
    )
