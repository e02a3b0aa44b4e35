"""Plans for a race: every strategy's, each once, with its costs, and without those that another one beats anyway."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest
from tests.records.made_up import measured_encoder, measured_task
from tests.tiny import CONFIGS, DEPTH
from tests.training.tuning_tools import many_tokens

from frostline.costs.cost import Costs
from frostline.costs.workload import Workload
from frostline.errors import OptionError
from frostline.plans.learning_rates import learning_rate_for
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES, best_layer, strategy
from frostline.records import LayerScore, LayerScores, Plan, Recipe
from frostline.records.cost import Cost
from frostline.search.proposals import PROBE, baseline_names, needed_scores, propose

CONTROLS = {"random-k", "fisher-bottom-k", "drop-span", "middle-block"}
VARIABILITY = (9.0, 4.0, 1.0, 2.0, 3.0)  # the second of four layers is the best
FISHER = (None, 0.2, 0.1, 0.9, 0.4)
RISING = (0.5, 0.6, 0.7, 0.8, 0.9)


def measured(*, variability=VARIABILITY, fisher=FISHER, probe=RISING, depth=DEPTH):
    """A measurement with made-up values for layers 0..L; None leaves a score out."""
    made = [("variability", "low", variability), ("fisher", "high", fisher), (PROBE, "high", probe)]
    return LayerScores(
        encoder=measured_encoder(depth),
        task=measured_task(),
        pooling="mean",
        rows="train",
        examples=100,
        max_length=512,
        truncated=0,
        seed=0,
        scores={
            name: LayerScore(name=name, better=better, values=values)
            for name, better, values in made
            if values is not None
        },
    )


class Remembering(Costs):
    """Counts no plan twice: most tests here look at the same ones."""

    def of(self, plan, *, epochs=None):
        known = self.__dict__.setdefault("known", {})
        if said(plan) not in known:
            known[said(plan)] = super().of(plan)
        return replace(known[said(plan)], epochs=epochs or self.recipe.epochs)


@cache
def costs():
    load = Workload(train=many_tokens(40).lengths, others=many_tokens(10, seed=1).lengths, outputs=3)
    return Remembering(CONFIGS["bert"], load, Recipe(batch=8))


def said(plan):
    """The plan without its reason."""
    return json.dumps({**plan.to_json(), "because": ""}, sort_keys=True)


def by_plan(proposals):
    return {said(one.plan): one for one in proposals}


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_every_strategy_takes_part_unless_it_is_a_control(name):
    scores = measured()
    found = by_plan(propose(scores, costs())[0])
    sources = [source for one in found.values() for source in one.sources]
    wanted = STRATEGIES[name].proposed(DEPTH)
    assert bool(wanted) == (name not in CONTROLS)
    for options in wanted:
        plan = STRATEGIES[name].plan(DEPTH, scores, options)
        assert any(source.split(":")[0] == name for source in found[said(plan)].sources)
    assert any(source.split(":")[0] == name for source in sources) == (name not in CONTROLS)


@pytest.mark.parametrize("name", STRATEGIES.names())
@pytest.mark.parametrize("depth", [1, 2, 3, 6, 24])
def test_what_a_strategy_proposes_can_be_followed_at_every_depth(name, depth):
    values = tuple(float(layer) for layer in range(depth + 1))
    scores = measured(variability=values, fisher=values, probe=None, depth=depth)
    for options in STRATEGIES[name].proposed(depth):
        if name == "best-up" and depth == 1:
            with pytest.raises(OptionError):  # nothing lies above the only layer
                STRATEGIES[name].plan(depth, scores, options)
        else:
            assert STRATEGIES[name].plan(depth, scores, options).head <= depth


def test_a_plan_that_several_strategies_give_is_there_once_with_all_its_sources():
    proposals, _ = propose(measured(), costs())
    assert len(by_plan(proposals)) == len(proposals)
    top = by_plan(proposals)[said(Plan.span(4, 4, 4))]
    assert top.sources == ("freeze-n:n=3", "top-k:k=1")
    best = by_plan(proposals)[said(Plan.span(1, 2, 4))]
    assert "best-down:layers=2,keep_top=yes" in best.sources and "best-down:layers=4,keep_top=yes" in best.sources


def test_all_layers_are_full_fine_tuning_whoever_proposes_them():
    proposals, _ = propose(measured(variability=(9.0, 4.0, 3.0, 2.0, 1.0)), costs())
    full = by_plan(proposals)[said(Plan.full(DEPTH))]
    assert {"full", "best-down:layers=4,keep_top=yes", "best-down:layers=4,keep_top=no"} <= set(full.sources)
    assert not any(
        one.plan.layers == (1, 2, 3, 4) and not one.plan.embeddings and one.plan.method == "full" for one in proposals
    )


def test_what_only_frostline_can_load_takes_part_only_where_that_is_allowed():
    own = [name for name, method in METHODS.items() if not method.is_stock]
    usual, notes = propose(measured(), costs())
    assert all(one.cost.stock for one in usual)
    assert {one.plan.method for one in usual} == set(METHODS.names()) - set(own)
    said_first = f"{len(own)} plans whose models only Frostline can load ({', '.join(own)}) are left out"
    assert notes[0].startswith(said_first) and notes[0].endswith("`allow_frostline_only=True` includes them")

    everything, notes = propose(measured(), costs(), allow_frostline_only=True)
    assert {one.plan.method for one in everything} == set(METHODS.names())
    assert not any("Frostline" in note for note in notes)


def heads_read(proposals):
    return sorted(one.plan.head for one in proposals if not one.plan.layers)


def test_the_head_alone_is_proposed_on_every_layer():
    assert heads_read(propose(measured(), costs())[0]) == [1, 2, 3, 4]


def test_the_cheapest_plan_comes_first():
    proposals, _ = propose(measured(), costs(), allow_frostline_only=True)
    prices = [one.cost.price for one in proposals]
    assert prices == sorted(prices)
    assert proposals[0].plan.layers == () and proposals[0].plan.head == 1
    assert len(set(prices)) > 10


def test_costs_are_those_of_the_plan():
    proposals, _ = propose(measured(), costs())
    for one in proposals[::5]:
        assert one.cost == costs().of(one.plan, epochs=3 if one.plan.layers else 30)  # heads alone train longer
    assert len({one.cost.trainable for one in proposals}) > 5


def test_numbers_to_predict_have_no_variability_and_the_probe_stands_in():
    proposals, _ = propose(measured(variability=None, probe=(0.1, 0.2, 0.3, 0.9, 0.4)), costs())
    found = by_plan(proposals)
    down = found[said(Plan.span(2, 3, 3))]
    assert "best-down:layers=2,keep_top=no,score=probe.linear" in down.sources
    up = found[said(Plan.span(4, 4, 4))]
    assert f"best-up:score={PROBE}" in up.sources


def test_a_strategy_without_its_score_and_without_a_fallback_is_left_out_with_a_note():
    proposals, notes = propose(measured(fisher=None), costs())
    assert not any(source.startswith("fisher") for one in proposals for source in one.sources)
    expected = "fisher-top-k proposes no plan: fisher cannot be measured on this task"
    assert [note for note in notes if "fisher" in note] == [expected]


@pytest.fixture
def loudest(monkeypatch):
    """A strategy of another package, which follows a layer score that no other strategy does."""
    monkeypatch.setattr(STRATEGIES, "_entries", dict(STRATEGIES.items()))

    @strategy(paper="a test", name="loudest", needs=["rank"], baseline="the loudest layer", joins="last")
    def loudest(depth, scores, *, seed, score: str = "hscore"):
        """Tune the best layer by the H-score."""
        return Plan.span(*[best_layer(scores, score)] * 3)


def test_scores_that_strategies_follow_are_measured_whoever_wrote_them(loudest):
    assert needed_scores(DEPTH) == ["variability", "fisher", "hscore", "rank", PROBE]


def test_a_strategy_follows_its_own_score_and_never_silently_another_one(loudest):
    scores = measured()
    sources = [source for one in propose(scores, costs())[0] for source in one.sources]
    assert not any(source.startswith("loudest") for source in sources)
    note = "loudest proposes no plan: hscore and rank cannot be measured on this task"
    assert note in propose(scores, costs())[1]

    own = {name: LayerScore(name=name, better="high", values=FISHER) for name in ("hscore", "rank")}
    both = replace(scores, scores={**scores.scores, **own})
    assert "loudest" in by_plan(propose(both, costs())[0])[said(Plan.span(3, 3, 3))].sources


def test_a_fallback_needs_an_option_to_stand_in_for():
    with pytest.raises(ValueError, match="strategy 'plain' has a fallback but no option 'score'"):

        @strategy(paper="a test", name="plain", fallback=PROBE)
        def plain(depth, scores, *, seed):
            """Tune something."""


def test_what_a_plan_stands_for_in_a_race_is_what_its_strategies_declare(loudest):
    names = ["full fine-tuning", "the last layers", "the loudest layer", "the middle layers", "the head only"]
    assert baseline_names() == names
    scores = measured()
    own = {name: LayerScore(name=name, better="high", values=FISHER) for name in ("hscore", "rank")}
    found = by_plan(propose(replace(scores, scores={**scores.scores, **own}), costs())[0])
    kinds = [
        (Plan.full(DEPTH), "full fine-tuning", True),
        (Plan.span(4, 4, 4), "the last layers", False),
        (Plan.span(2, 3, 4), "the middle layers", False),
        (Plan.span(3, 3, 3), "the loudest layer", True),
        (Plan(layers=(), head=2), "the head only", False),
    ]
    for plan, baseline, joins_late in kinds:
        assert (found[said(plan)].baselines, found[said(plan)].joins_late) == ((baseline,), joins_late)
    assert found[said(Plan.span(3, 4, 4))].baselines == ("the last layers",)
    assert found[said(Plan.span(2, 2, 4))].baselines == ()


@pytest.mark.parametrize("depth", [1, 2])
def test_where_the_middle_layers_are_all_of_them_they_are_no_baseline_of_their_own(depth):
    assert STRATEGIES["middle"].proposed(depth) == []


def test_nothing_lies_above_the_last_layer_where_it_is_the_best():
    scores = measured(variability=(9.0, 4.0, 3.0, 2.0, 1.0))
    sources = [source for one in propose(scores, costs())[0] for source in one.sources]
    assert not any(source.startswith("best-up") for source in sources)
    assert any(source.startswith("best-down") for source in sources)
    usual = [source for one in propose(measured(), costs())[0] for source in one.sources]
    assert "best-up" in usual


def test_a_proposal_is_plain_json_and_says_why():
    for one in propose(measured(), costs())[0]:
        data = json.loads(json.dumps(one.to_json()))
        assert Plan.from_json(data["plan"]) == one.plan and one.plan.because
        assert Cost(**data["cost"]) == one.cost
        assert data["sources"] == list(one.sources) and one.sources
        assert data["baselines"] == list(one.baselines) and data["joins_late"] == one.joins_late


def test_narrow_encoders_and_plans_of_few_layers_train_with_higher_rates():
    few, most, full = (
        learning_rate_for(plan, 768) for plan in (Plan.span(11, 12, 12), Plan.span(2, 12, 12), Plan.full(12))
    )
    assert few == pytest.approx(4 * full) and most == full == METHODS["full"].learning_rate
    assert learning_rate_for(Plan.full(12), 384) == pytest.approx(2 * full)
    assert learning_rate_for(Plan(layers=(12,), head=12, method="lora"), 768) == METHODS["lora"].learning_rate
    assert learning_rate_for(Plan(layers=(), head=12), 384) == learning_rate_for(Plan(layers=(), head=1), 768) == 2e-3
    assert learning_rate_for(Plan.full(6), 312) == float(f"{METHODS['full'].learning_rate * 768 / 312:.1e}")
