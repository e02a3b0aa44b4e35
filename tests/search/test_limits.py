"""Budgets: which plans the limits leave, what is noted about the others, and what would do where none is left."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from frostline.errors import OptionError
from frostline.records import Plan
from frostline.records.budget import GOALS, Budget
from frostline.records.cost import Cost
from frostline.records.proposal import Proposal
from frostline.search.limits import fitting_time, race_seconds, within, worth_trying

LIMITS = ("minutes", "max_trainable", "max_latency", "max_memory", "max_layers")


def proposal(plan, **known):
    cost = Cost(
        epochs=3,
        total=20_000_000,
        trainable=1_000_000,
        stored=20_000_000,
        stock=True,
        layers=plan.head,
        forward_per_token=1.0,
        backward_per_token=2.0,
        frozen_flops=0.0,
        epoch_flops=1.0,
        epoch_flops_uncached=1.0,
        steps=10,
        cache=0,
        memory=1_000_000_000,
        latency=plan.head / 12,
        seconds=60.0,
    )
    return Proposal(plan=plan, sources=("made up",), cost=replace(cost, **known))


HEAD = proposal(Plan(layers=(), head=4), trainable=1_538, seconds=31.7, memory=300_000_000)
CUT = proposal(Plan.span(4, 6, 6), trainable=5_334_567, seconds=100.0, memory=700_000_000)
TOP = proposal(Plan.span(10, 12, 12), trainable=5_325_443, seconds=140.0, memory=800_000_000)
FULL = replace(proposal(Plan.full(12), trainable=21_294_722, seconds=599.3, memory=2_345_678_901), joins_late=True)
ALL = [HEAD, CUT, TOP, FULL]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_is_no_amount_is_one_line_that_names_it(name, value):
    with pytest.raises(OptionError) as error:
        Budget(**{name: value})
    assert str(error.value) == f"`{name}={value:g}`: must be above 0"


def test_a_latency_above_the_whole_encoders_is_refused():
    with pytest.raises(OptionError, match=r"^`max_latency=50`: is a share of the whole encoder's time.*as in 0.5$"):
        Budget(max_latency=50)
    assert Budget(max_latency=1).max_latency == 1


@pytest.mark.parametrize("margin", [-0.5, float("nan"), float("inf")])
def test_a_margin_below_0_is_refused(margin):
    with pytest.raises(OptionError, match=rf"^`margin={margin:g}`: must be 0 or more points$"):
        Budget(margin=margin)
    assert Budget(margin=0).margin == 0


def test_an_unknown_goal_is_refused_with_the_known_ones():
    with pytest.raises(OptionError) as error:
        Budget(goal="dearest")
    assert str(error.value) == f"goal 'dearest': must be one of {', '.join(GOALS)}"


def test_a_budget_is_plain_json():
    budget = Budget(minutes=5, max_layers=6, goal="smallest")
    assert Budget(**json.loads(json.dumps(budget.to_json()))) == budget


def test_no_limits_leave_everything_and_say_nothing():
    assert within(ALL, Budget()) == (ALL, [])


@pytest.mark.parametrize(
    ("limits", "kept", "notes"),
    [
        ({"minutes": 2.0}, [HEAD, CUT], ["`minutes=2` excludes 2 of 4 plans, including full fine-tuning"]),
        (
            {"max_trainable": 5_330_000},
            [HEAD, TOP],
            ["`max_trainable=5,330,000` excludes 2 of 4 plans, including full fine-tuning"],
        ),
        (
            {"max_latency": 0.5},
            [HEAD, CUT],
            ["`max_latency=0.5` excludes 2 of 4 plans, including full fine-tuning"],
        ),
        ({"max_memory": 2.5}, ALL, []),
        ({"max_memory": 2.0}, [HEAD, CUT, TOP], ["`max_memory=2` excludes 1 of 4 plans, including full fine-tuning"]),
        ({"max_layers": 6}, [HEAD, CUT], ["`max_layers=6` excludes 2 of 4 plans, including full fine-tuning"]),
        (
            {"max_layers": 6, "minutes": 1.0},
            [HEAD],
            [
                "`minutes=1` excludes 3 of 4 plans, including full fine-tuning",
                "`max_layers=6` excludes 2 of 4 plans, including full fine-tuning",
            ],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_each_limit_says_how_many_plans_it_excludes(limits, kept, notes):
    assert within(ALL, Budget(**limits)) == (kept, notes)


def test_full_fine_tuning_is_named_only_where_it_is_excluded():
    _, notes = within([HEAD, CUT, TOP], Budget(max_layers=4))
    assert notes == ["`max_layers=4` excludes 2 of 3 plans"]


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"max_trainable": 5_325_443}, TOP),
        ({"max_latency": 0.5}, CUT),
        ({"max_memory": 0.7}, CUT),
        ({"minutes": 140 / 60}, TOP),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_plan_that_takes_exactly_what_is_allowed_fits(limits, kept):
    assert kept in within(ALL, Budget(**limits))[0]


def refusal(proposals, **limits):
    with pytest.raises(OptionError) as error:
        within(proposals, Budget(**limits))
    message = str(error.value)
    assert "\n" not in message
    return message


def hints(message):
    """The limits that would do, each with its value, as the message's last sentence gives them."""
    return {name: float(value) for name, value in re.findall(r"`([a-z_]+)=([\d.]+)`", message.rsplit(". ", 1)[1])}


@pytest.mark.parametrize(
    ("name", "value"),
    [("minutes", 0.1), ("max_trainable", 1000), ("max_latency", 0.1), ("max_memory", 0.01), ("max_layers", 2)],
)
def test_where_nothing_fits_one_limit_the_message_says_what_would(name, value):
    message = refusal(ALL, **{name: value})
    ((named, enough),) = hints(message).items()
    assert message.startswith(f"no plan fits: `{name}={value:g}` excludes 4 of 4 plans, including full fine-tuning. ")
    assert named == name
    assert within(ALL, Budget(**{name: enough}))[0] == [HEAD]
    with pytest.raises(OptionError):
        within(ALL, Budget(**{name: 0.98 * enough}))  # and it is no more than needed


def test_limits_that_exclude_one_another_are_all_named_with_what_would_do_for_each():
    limits = {"max_trainable": 5_330_000, "max_layers": 6}
    message = refusal([CUT, TOP, FULL], **limits)
    assert "`max_trainable=5,330,000` excludes 2 of 3 plans" in message
    assert "`max_layers=6` excludes 2 of 3 plans" in message
    assert hints(message).keys() == {"max_trainable", "max_layers"}
    for name, enough in hints(message).items():
        kept, _ = within([CUT, TOP, FULL], Budget(**{**limits, name: enough}))
        assert kept


def test_a_limit_that_excludes_nothing_is_not_blamed():
    message = refusal(ALL, max_layers=3, minutes=60.0, max_memory=100.0)
    assert "minutes" not in message and "max_memory" not in message
    assert hints(message) == {"max_layers": 4}


def test_where_several_limits_have_to_give_the_message_says_what_would_do():
    limits = {"max_trainable": 1000, "max_layers": 3, "minutes": 60.0}
    message = refusal(ALL, **limits)
    assert "`max_trainable=1000` excludes 4 of 4 plans" in message
    assert "`max_layers=3` excludes 4 of 4 plans" in message
    given = hints(message)
    assert given.keys() == {"max_trainable", "max_layers"}
    assert within(ALL, Budget(**{**limits, **given}))[0] == [HEAD]


def test_what_would_do_is_what_one_plan_takes_and_not_the_least_of_several():
    small_but_slow = proposal(Plan.span(12, 12, 12), trainable=1_000, latency=1.0)
    fast_but_large = proposal(Plan.span(1, 3, 3), trainable=9_000_000, latency=0.25)
    limits = {"max_trainable": 900, "max_latency": 0.2}
    message = refusal([small_but_slow, fast_but_large], **limits)
    given = hints(message)
    assert len(within([small_but_slow, fast_but_large], Budget(**{**limits, **given}))[0]) == 1


def priced(plan, price, **known):
    return proposal(plan, frozen_flops=float(price), epoch_flops=0.0, **known)


def test_what_saves_little_of_full_fine_tunings_arithmetic_does_not_race_beside_it():
    dear, near, cheap = (priced(Plan.span(2, 6, 6), price) for price in (90, 60, 59))
    full = priced(Plan.full(6), 100)
    kept, notes = worth_trying([cheap, near, dear, full], Budget())
    assert kept == [cheap, full]
    assert notes == ["2 plans left out, saving less than 40% of full fine-tuning's compute; `goal='best'` includes all"]
    assert worth_trying([dear, full], Budget())[1][0].startswith("1 plan left out")
    assert worth_trying([cheap, full], Budget()) == ([cheap, full], [])


def test_all_plans_race_for_the_best_model_and_where_full_fine_tuning_is_not_there():
    dear, full = priced(Plan.span(2, 6, 6), 90), priced(Plan.full(6), 100)
    assert worth_trying([dear, full], Budget(goal="best")) == ([dear, full], [])
    assert worth_trying([dear], Budget()) == ([dear], [])


@pytest.mark.parametrize("goal", ["smallest", "fastest"])
def test_a_dear_plan_that_drops_layers_races_where_small_or_fast_models_are_wanted(goal):
    short = priced(Plan.span(1, 5, 5), 90, stored=19_000_000)
    full = priced(Plan.full(6), 100)
    assert worth_trying([short, full], Budget(goal=goal)) == ([short, full], [])
    assert worth_trying([short, full], Budget())[0] == [full]


def test_plans_that_fit_into_the_time_all_stay():
    kept, notes = fitting_time([TOP, FULL, HEAD, CUT], 10_000)
    assert kept == [HEAD, CUT, TOP, FULL]
    assert notes == []


def test_the_most_expensive_plans_leave_the_race_first():
    kept, notes = fitting_time([FULL, HEAD, TOP, CUT], race_seconds([HEAD, CUT, TOP]))
    assert kept == [HEAD, CUT, TOP]
    assert notes == ["`minutes` excludes 1 of 4 plans, the most expensive, including full fine-tuning"]
    kept, notes = fitting_time([HEAD, TOP, CUT], race_seconds([HEAD, CUT]))
    assert kept == [HEAD, CUT]
    assert notes == ["`minutes` excludes 1 of 3 plans, the most expensive"]


def test_one_plan_is_always_left():
    kept, notes = fitting_time(ALL, 0.001)
    assert kept == [HEAD]
    assert notes == ["`minutes` excludes 3 of 4 plans, the most expensive, including full fine-tuning"]


def test_a_race_takes_longer_with_more_or_dearer_plans():
    assert race_seconds([HEAD]) < race_seconds([HEAD, CUT]) < race_seconds([HEAD, TOP]) < race_seconds(ALL)
    assert race_seconds([]) == 0
