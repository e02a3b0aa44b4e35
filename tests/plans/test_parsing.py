"""Plans in words, and the strategies behind some of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.records.made_up import measured_encoder, measured_task
from tests.tiny import tiny_encoder

from frostline.errors import OptionError
from frostline.plans.methods import METHODS
from frostline.plans.parsing import parse_plan, read_plan, with_method
from frostline.plans.strategies import STRATEGIES
from frostline.records import LayerScore, LayerScores, Plan

DEPTH = 12


def measured(variability, fisher=None, depth=None):
    """A measurement with made-up values for layers 0..L."""
    angles = tuple(0.3 - 0.3 * layer / (len(variability) - 1) for layer in range(len(variability)))
    scores = {
        "variability": LayerScore(name="variability", better="low", values=tuple(variability)),
        "angular_distance": LayerScore(name="angular_distance", better="low", values=(*angles[:-1], None)),
    }
    if fisher is not None:
        scores["fisher"] = LayerScore(name="fisher", better="high", values=tuple(fisher))
    return LayerScores(
        encoder=measured_encoder(depth or len(variability) - 1),
        task=measured_task(),
        pooling="mean",
        rows="train",
        examples=100,
        max_length=512,
        truncated=0,
        seed=0,
        scores=scores,
    )


BEST_AT_7 = measured([9, 8, 7, 6, 5, 4, 3, 1, 2, 3, 4, 5, 6], [None, 3, 9, 1, 4, 8, 2, 5, 7, 6, 10, 0.5, 0.7])


@pytest.mark.parametrize(
    ("text", "layers", "head", "embeddings"),
    [
        ("9,12,12", range(9, 13), 12, False),
        ("(9, 12, 12)", range(9, 13), 12, False),
        ("1,12,12", range(1, 13), 12, True),
        ("3,5,8", range(3, 6), 8, False),
        ("layers=2+5+9,head=12", (2, 5, 9), 12, False),
        ("layers=9+2,head=10", (2, 9), 10, False),
        ("layers=2-4+9", (2, 3, 4, 9), 12, False),
        ("layers=none,head=5", (), 5, False),
        ("freeze=8", range(9, 13), 12, False),
        ("freeze=8,head=10", (9, 10), 10, False),
        ("freeze=0", range(1, 13), 12, True),
        ("freeze=12", (), 12, False),
        ("layers=1-12,embeddings=yes", range(1, 13), 12, True),
        ("freeze=0,embeddings=no", range(1, 13), 12, False),
    ],
)
def test_a_plan_can_be_written_in_words(text, layers, head, embeddings):
    plan = parse_plan(text, DEPTH)
    assert plan == Plan(layers=tuple(layers), head=head, embeddings=embeddings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9,12", "write it as 9,12,12"),
        ("nine,12,12", "'nine' is not a layer's number"),
        ("12,9,12", "the bottom layer lies above the top one"),
        ("9,13,13", "layers 1..12"),
        ("9,12,11", "must not lie below layer 12"),
        ("0,3,12", "must be different numbers from 1"),
        ("freeze=13", "must freeze 0..12 layers"),
        ("freeze=-1", "must freeze 0..12 layers"),
        ("freeze=2,layers=3", "either layers=... or freeze=..."),
        ("head=12", "either layers=... or freeze=..."),
        ("layers=2,top=3", "unknown option 'top'"),
        ("layers=2,haed=3", "did you mean head?"),
        ("layers=2+x", "'x' is not a layer's number"),
        ("layers=2,embeddings=maybe", "must be yes or no"),
        ("layers=2,embeddings=yes", "embeddings train only together with all layers"),
        ("layers=2,method=magic", "unknown method 'magic'"),
        ("layers=2,,head=3", "is not of the form name=value"),
        ("ful", "did you mean full?"),
        ("best-dwon", "did you mean best-down?"),
    ],
)
def test_a_plan_that_cannot_be_is_one_line(text, message):
    with pytest.raises(OptionError) as error:
        parse_plan(text, DEPTH)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_plan_survives_json(tmp_path):
    plan = Plan(layers=(2, 5), head=9, method="lora", options={"rank": 4}, because="so")
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.to_json()))
    assert read_plan(str(path), tiny_encoder("bert")) == plan
    assert read_plan('{"layers": [1], "head": 2}', tiny_encoder("bert")) == Plan(layers=(1,), head=2)


@pytest.mark.parametrize(
    "content", ["{", "[1]", '{"layers": 3}', '{"layers": [1]}', '{"layers": ["a"], "head": 2}', "null"]
)
def test_a_broken_plan_file_is_one_line(tmp_path, content):
    path = tmp_path / "plan.json"
    path.write_text(content)
    with pytest.raises(OptionError, match=r"plan"):
        read_plan(str(path), tiny_encoder("bert"))


def test_a_plan_file_that_is_not_there_is_one_line():
    with pytest.raises(OptionError, match="No such file"):
        read_plan("nowhere/plan.json", tiny_encoder("bert"))


@pytest.mark.parametrize(
    ("name", "options", "plan"),
    [
        ("full", {}, "(1, 12, 12)"),
        ("top-k", {"k": 2}, "(11, 12, 12)"),
        ("freeze-n", {"n": 9}, "(10, 12, 12)"),
        ("best-down", {}, "(5, 7, 12)"),
        ("best-down", {"layers": 1}, "(7, 7, 12)"),
        ("best-down", {"layers": 12}, "(1, 7, 12)"),
        ("best-down", {"keep_top": False}, "(5, 7, 7)"),
        ("best-up", {}, "(8, 12, 12)"),
        ("best-up", {"top": 10}, "(8, 10, 12)"),
        ("best-up", {"top": 10, "keep_top": False}, "(8, 10, 10)"),
        ("drop-top", {}, "(9, 11, 11)"),
        ("drop-top", {"n": 4, "layers": 2}, "(7, 8, 8)"),
        ("drop-top", {"n": 10}, "(1, 2, 2)"),
        ("middle", {}, "(5, 7, 12)"),
        ("middle", {"keep_top": False, "layers": 1}, "(7, 7, 7)"),
        ("fisher-top-k", {"k": 3}, "(layers 2+5+10, head 12)"),
        ("fisher-bottom-k", {"k": 2}, "(11, 12, 12)"),
        ("fisher-bottom-k", {}, "(11, 11, 12)"),
    ],
)
def test_strategies_give_the_papers_plans(name, options, plan):
    made = STRATEGIES[name].plan(DEPTH, BEST_AT_7, options)
    assert str(made) == plan
    assert made.because
    assert made.embeddings == (name == "full")


def test_the_middle_of_24_layers_is_13_as_in_the_paper():
    assert str(STRATEGIES["middle"].plan(24, None, {"layers": 1})) == "(13, 13, 24)"


def test_random_layers_depend_on_the_seed_alone():
    draw = lambda seed: STRATEGIES["random-k"].plan(DEPTH, None, {"k": 3}, seed=seed).layers  # noqa: E731
    assert draw(0) == draw(0) and len(draw(0)) == 3
    assert len({draw(seed) for seed in range(20)}) > 10
    assert {layer for seed in range(100) for layer in draw(seed)} == set(range(1, 13))


def test_undefined_layers_are_never_the_best():
    scores = measured([1, None, 5, None, 4], [None, None, 2, None, 1])
    assert STRATEGIES["best-down"].plan(4, scores, {"layers": 1}).layers == (4,)
    assert STRATEGIES["fisher-top-k"].plan(4, scores, {"k": 1}).layers == (2,)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("top-k", {"k": 13}, "13 layers to tune"),
        ("top-k", {"k": 0}, "0 layers to tune"),
        ("top-k", {"k": "two"}, "must be a whole number"),
        ("top-k", {"k": -1}, "must be 0 or more"),
        ("top-k", {"n": 1}, "unknown option 'n'"),
        ("freeze-n", {"n": 13}, "13 layers to freeze"),
        ("best-up", {"top": 7}, "with none between it and 7"),
        ("best-up", {"top": 13}, "layers 1..12"),
        ("drop-top", {"n": 12}, "12 layers to drop, but the encoder has layers 1..12"),
        ("drop-top", {"n": -1}, "n -1 must be 0 or more"),
        ("best-down", {"keep_top": "perhaps"}, "must be yes or no"),
        ("best-down", {"score": "cca"}, "was not measured"),
    ],
)
def test_a_strategy_that_cannot_be_followed_is_one_line(name, options, message):
    with pytest.raises(OptionError) as error:
        STRATEGIES[name].plan(DEPTH, BEST_AT_7, options)
    assert message in str(error.value)


def test_a_strategy_that_needs_scores_says_so():
    with pytest.raises(OptionError, match="needs the layer score variability"):
        STRATEGIES["best-down"].plan(DEPTH)


def test_nothing_is_best_where_a_score_is_undefined_everywhere():
    with pytest.raises(OptionError, match="undefined at every layer"):
        STRATEGIES["best-down"].plan(2, measured([None, None, None]))


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_every_strategy_explains_itself_and_takes_words(name):
    strategy = STRATEGIES[name]
    assert strategy.summary.endswith(".") and strategy.paper
    words = {option: str(value) for option, value in strategy.defaults.items() if not isinstance(value, bool)}
    assert strategy.plan(DEPTH, BEST_AT_7, words) == strategy.plan(DEPTH, BEST_AT_7)


@pytest.mark.parametrize("name", STRATEGIES.names())
@pytest.mark.parametrize("depth", [2, 3, 6, 24])
def test_every_strategy_fits_every_depth(name, depth):
    values = [5.0] + [abs(layer - depth // 2 - 0.1) for layer in range(1, depth + 1)]
    options = {key: 1 for key in ("k", "layers") if key in STRATEGIES[name].defaults}
    plan = STRATEGIES[name].plan(depth, measured(values, [None, *values[1:]]), options)
    assert plan.head <= depth and all(1 <= layer <= depth for layer in plan.layers)


def of_encoder(encoder, variability):
    """A made-up measurement of this encoder."""
    scores = measured(variability)
    return replace(scores, encoder=replace(scores.encoder, revision=encoder.revision))


def test_a_strategy_measures_what_it_needs_and_uses_what_is_given():
    asked, encoder = [], tiny_encoder("bert")

    def measure(names):
        asked.append(names)
        return of_encoder(encoder, [9, 4, 1, 3, 5])

    assert str(read_plan("best-down:layers=1", encoder, measure=measure)) == "(2, 2, 4)"
    assert asked == [("variability",)]
    given = of_encoder(encoder, [9, 4, 3, 1, 5])
    assert str(read_plan("best-down:layers=1,keep_top=no", encoder, scores=given, measure=measure)) == "(3, 3, 3)"
    assert len(asked) == 1
    with pytest.raises(OptionError, match="needs measured layer scores"):
        read_plan("best-down", encoder)


def test_scores_of_another_encoder_are_refused():
    encoder = tiny_encoder("bert")
    with pytest.raises(OptionError, match="the scores have 12 layers, but tiny bert has 4"):
        read_plan("best-down", encoder, scores=BEST_AT_7)
    with pytest.raises(OptionError, match="the scores were measured on tiny, not on tiny bert"):
        read_plan("best-down", encoder, scores=measured([9, 4, 3, 1, 5]))


def test_a_method_is_added_with_its_options():
    plan = with_method(Plan.full(12), "lora:rank=4")
    assert plan.method == "lora" and plan.options == {"rank": 4} and not plan.embeddings
    assert with_method(plan, None) is plan
    with pytest.raises(OptionError, match="unknown method 'lorra'"):
        with_method(plan, "lorra")
    with pytest.raises(OptionError, match="unknown option 'ranks'"):
        with_method(plan, "lora:ranks=4")
    with pytest.raises(OptionError, match="must be a whole number"):
        with_method(plan, "lora:rank=four")


@pytest.mark.parametrize("name", METHODS.names())
def test_every_method_explains_itself(name):
    assert METHODS[name].summary.endswith(".") and METHODS[name].learning_rate > 0


def test_only_full_weights_train_embeddings():
    with pytest.raises(OptionError, match="never trains embeddings"):
        Plan(layers=(1, 2), head=2, embeddings=True, method="lora")
