"""A head on the mean of all tokens, and the stock model with one more layer that computes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from tests.tiny import ALL_CONFIGS, DEPTH, padded_inputs, random_tokens, save_tiny, tiny_encoder
from tests.training.tuning_tools import many_tokens
from torch import nn

import frostline
from frostline.costs.cost import Costs
from frostline.costs.workload import Workload
from frostline.encoders.average_head import AverageHead, averaging_layer, can_average, make_average_head
from frostline.encoders.families import FAMILIES
from frostline.errors import OptionError
from frostline.kernels.batch_layout import Reads
from frostline.prediction.export import stock_model
from frostline.prediction.loading import OWN_FILE, load_tuned
from frostline.records import Plan, Recipe
from frostline.tasks import Split, Task
from frostline.tasks.unlabelled import read_list
from frostline.training.dataset import Examples
from frostline.training.model import make_tunable

AVERAGING = [name for name in ALL_CONFIGS if FAMILIES[ALL_CONFIGS[name].model_type].can_average]
OTHERS = [name for name in ALL_CONFIGS if name not in AVERAGING]
PLAN = Plan(layers=(2, 3), head=3)
LABELS = ("low", "middle", "high")
TEXTS = ["ice and snow", "sun", "a long hot day of heat in July at noon", "hail"]


def tuned_model(name, plan=PLAN, *, kind="classification", head="average", seed=0):
    """A model as after tuning: all that trains has moved, the fresh classifier to weights of trained size."""
    outputs = len(LABELS) if kind == "classification" else 1
    tunable = make_tunable(tiny_encoder(name), plan, outputs=outputs, kind=kind, head=head, seed=seed)
    random = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for value in tunable.trainable().values():
            value.add_(0.2 * torch.randn(value.shape, generator=random))
    return tunable


def outputs_of(tunable, tokens, offsets=None):
    rows = len(tokens) if offsets is None else len(offsets) - 1
    return Examples(tokens=tokens, states=None, labels=torch.zeros(rows), offsets=offsets).outputs(tunable)


def loaded_by_transformers(tunable, folder, label_names=()):
    """The exported model as transformers alone loads it."""
    stock_model(tunable, label_names).save_pretrained(folder)
    auto = (
        transformers.AutoModelForMultipleChoice
        if tunable.head.kind == "multiple choice"
        else transformers.AutoModelForSequenceClassification
    )
    model, report = auto.from_pretrained(folder, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def exported_size(name, plan):
    """The parameters of the stock classifier with the layers that the plan keeps and one more."""
    config = type(ALL_CONFIGS[name]).from_dict(ALL_CONFIGS[name].to_dict())
    config.num_hidden_layers, config.num_labels = plan.head + 1, len(LABELS)
    with torch.device("meta"):
        stock = transformers.AutoModelForSequenceClassification.from_config(config)
    return sum(value.numel() for value in stock.parameters())


# What is exported -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("name", AVERAGING)
def test_the_exported_model_gives_the_same_logits(tmp_path, name, kind):
    tunable, tokens = tuned_model(name, kind=kind), random_tokens()
    ours = outputs_of(tunable, tokens)
    stock = loaded_by_transformers(tunable, tmp_path, LABELS if kind == "classification" else ())
    with torch.no_grad():
        theirs = stock(**padded_inputs(tunable.encoder, tokens)).logits
    assert ours.std(0).min() > 0.02  # texts differ, so that equality says something
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("plan", [Plan.full(DEPTH), Plan(layers=(), head=1), Plan(layers=(1, 3), head=4)], ids=str)
@pytest.mark.parametrize("name", AVERAGING)
def test_the_exported_model_has_exactly_one_layer_more_than_the_plan_keeps(tmp_path, name, plan):
    tunable, tokens = tuned_model(name, plan), random_tokens((6, 3, 11))
    stock = loaded_by_transformers(tunable, tmp_path, LABELS)
    assert stock.config.num_hidden_layers == plan.head + 1
    assert len(FAMILIES[stock.config.model_type].layers(stock.base_model)) == plan.head + 1
    with torch.no_grad():
        theirs = stock(**padded_inputs(tunable.encoder, tokens)).logits
    torch.testing.assert_close(outputs_of(tunable, tokens), theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", AVERAGING)
def test_multiple_choice_is_exported_too(tmp_path, name):
    tunable, tokens = tuned_model(name, kind="multiple choice"), random_tokens((5, 9, 7, 9, 4, 6))
    ours = outputs_of(tunable, tokens, np.array([0, 2, 4, 6]))
    stock = loaded_by_transformers(tunable, tmp_path, ("0", "1"))
    inputs = {key: value.unflatten(0, (3, 2)) for key, value in padded_inputs(tunable.encoder, tokens).items()}
    with torch.no_grad():
        theirs = stock(**inputs).logits
    assert ours.shape == (3, 2)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_the_added_layer_is_plain_where_the_layer_below_it_was_tuned_by_a_method(tmp_path):
    tunable, tokens = tuned_model("bert", replace(PLAN, method="lora", options={"rank": 2})), random_tokens()
    ours = outputs_of(tunable, tokens)
    stock = loaded_by_transformers(tunable, tmp_path, LABELS)
    with torch.no_grad():
        theirs = stock(**padded_inputs(tunable.encoder, tokens)).logits
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_making_the_added_layer_leaves_the_layer_that_it_resembles_alone():
    layer = FAMILIES["bert"].layers(tiny_encoder("bert").model)[2]
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    added = averaging_layer(FAMILIES["bert"], layer)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert not added.get_submodule("attention.self.query").weight.any()


# Who can --------------------------------------------------------------------------------------------------------------


def test_families_whose_layers_end_in_a_norm_and_attend_by_content_alone_can_average():
    able = {ALL_CONFIGS[name].model_type for name in ALL_CONFIGS if can_average(tiny_encoder(name))}
    assert able == {"bert", "roberta", "xlm-roberta", "electra", "distilbert"}


@pytest.mark.parametrize("name", OTHERS)
def test_other_families_refuse_the_head_in_one_line(name):
    with pytest.raises(OptionError, match="head 'average'") as refusal:
        make_tunable(tiny_encoder(name), PLAN, outputs=2, head="average")
    assert FAMILIES[ALL_CONFIGS[name].model_type].title in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["albert", "albert two groups"])
def test_layers_that_share_parameters_cannot_average(name):
    assert not can_average(tiny_encoder(name))


def test_an_encoder_that_shares_layers_cannot_average_whatever_its_family(monkeypatch):
    encoder = tiny_encoder("albert")
    monkeypatch.setattr(type(encoder.family), "can_average", True)
    assert encoder.shares_layers
    assert not can_average(encoder)


def test_the_refusal_reaches_the_user_before_anything_trains(tmp_path):
    folder = save_tiny(tmp_path / "base", "mpnet")
    with pytest.raises(OptionError, match="head 'average'"):
        frostline.tune(folder, weather(), plan="3,3,3", recipe={"head": "average"}, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# What the head reads --------------------------------------------------------------------------------------------------


def standardised(values):
    return (values - values.mean()) / values.std(correction=0)


@pytest.mark.parametrize(
    ("name", "hidden", "activation", "last"),
    [
        ("bert", "bert.pooler.dense", torch.tanh, "classifier"),
        ("roberta", "classifier.dense", torch.tanh, "classifier.out_proj"),
        ("distilbert", "pre_classifier", torch.relu, "classifier"),
        ("electra", "classifier.dense", nn.functional.gelu, "classifier.out_proj"),
    ],
)
def test_the_head_is_the_stock_head_on_the_standardised_mean_of_real_tokens(name, hidden, activation, last):
    head = tuned_model(name).head.eval()
    states = torch.randn(3, 6, 32, generator=torch.Generator().manual_seed(0))
    lengths = (6, 2, 1)
    mask = torch.arange(6)[None, :] < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        found = head(states, mask)
        for row, length in enumerate(lengths):
            mean = standardised(sum(states[row, place] for place in range(length)) / length)
            expected = head.stock.get_submodule(last)(activation(head.stock.get_submodule(hidden)(mean)))
            # The first token's own state is added to a thousand times the mean.
            torch.testing.assert_close(found[row], expected, atol=0.02, rtol=0)
        assert (found[0] - found[1]).abs().max() > 0.2


@pytest.mark.parametrize("name", AVERAGING)
def test_what_is_at_padding_does_not_matter(name):
    head = make_average_head(tiny_encoder(name), labels=3, seed=3).eval()
    states = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    other = states.masked_fill(~mask[..., None], 7.0)
    with torch.no_grad():
        assert torch.equal(head(states, mask), head(other, mask))
        torch.testing.assert_close(head(states, mask)[:1], head(states[:1, :3]), atol=1e-6, rtol=0)


def test_a_text_gives_the_same_logits_alone_as_in_a_batch():
    tunable, tokens = tuned_model("bert"), random_tokens()
    together = outputs_of(tunable, tokens)
    for row in range(len(tokens)):
        alone = outputs_of(tunable, tokens.take(np.array([row])))
        torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=0)


def test_the_first_token_counts_like_any_other():
    states = torch.randn(4, 6, 32, generator=torch.Generator().manual_seed(0))
    turned = states.flip(1)
    average, family = (tuned_model("bert", head=head).head.eval() for head in ("average", "family"))
    with torch.no_grad():
        torch.testing.assert_close(average(states), average(turned), atol=0.03, rtol=0)
        assert (family(states) - family(turned)).abs().max() > 1
    assert (average.reads, family.reads) == (Reads.ALL, Reads.FIRST)


def test_a_fresh_head_is_drawn_from_the_seed_alone():
    encoder = tiny_encoder("roberta")
    one, same, other = (make_average_head(encoder, labels=3, seed=seed).state_dict() for seed in (5, 5, 6))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["stock.classifier.dense.weight"], other["stock.classifier.dense.weight"])
    assert not torch.equal(one["stock.classifier.out_proj.weight"], other["stock.classifier.out_proj.weight"])


def test_the_pretrained_pooler_which_knows_the_first_token_alone_is_not_used():
    encoder = tiny_encoder("bert")
    dense = make_tunable(encoder, Plan.full(DEPTH), outputs=2, head="average").head.stock.bert.pooler.dense.weight
    assert not torch.equal(dense, encoder.model.pooler.dense.weight)
    gram = dense.detach() @ dense.detach().T
    torch.testing.assert_close(gram, gram[0, 0] * torch.eye(32), atol=1e-5, rtol=0)


# Tuned, saved and loaded ----------------------------------------------------------------------------------------------


def weather(kind="classification"):
    texts = tuple(f"{TEXTS[row % 4]} {row}" for row in range(8))
    rows = Split(
        texts=texts,
        choices=(("yes it is", "no"),) * 8 if kind == "multiple choice" else None,
        labels=tuple(row / 7 if kind == "regression" else row % 2 for row in range(8)),
        rows=tuple(range(1, 9)),
    )
    return Task(
        name="weather",
        kind=kind,
        label_names={"classification": ("cold", "warm"), "regression": (), "multiple choice": ("0", "1")}[kind],
        train=rows,
        validation=rows.take(range(4)),
        test=rows.take(range(4, 8)),
        metrics=("spearman",) if kind == "regression" else ("accuracy",),
        source="memory",
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert", "classification"),
        ("bert", "regression"),
        ("bert", "multiple choice"),
        ("distilbert", "classification"),
        ("electra", "classification"),
    ],
)
def test_a_tuned_model_is_saved_as_a_stock_one_and_gives_the_same_outputs_when_loaded(tmp_path, name, kind):
    recipe = Recipe(epochs=2, batch=8, learning_rate=1e-2, warmup=0.0, select="last", head="average")
    base = save_tiny(tmp_path / "base", name)
    tuned = frostline.tune(base, weather(kind), plan="2,3,3", recipe=recipe, cache=False, output=tmp_path / "run")
    assert isinstance(tuned.tunable.head, AverageHead)
    assert tuned.trained.audit.moved == tuned.trained.audit.tensors
    assert not (tmp_path / "run" / "model" / OWN_FILE).exists()
    again = load_tuned(tmp_path / "run")
    asked = read_list([(text, ["yes it is", "no"]) for text in TEXTS] if kind == "multiple choice" else TEXTS)
    in_memory = replace(again, tunable=tuned.tunable)
    assert (again.kind, again.tunable.encoder.depth) == (kind, tuned.plan.head + 1)
    torch.testing.assert_close(again.outputs(asked), in_memory.outputs(asked), atol=1e-5, rtol=1e-5)


# What it costs --------------------------------------------------------------------------------------------------------


LOAD = Workload(train=many_tokens(40).lengths, others=many_tokens(15, seed=1).lengths, outputs=len(LABELS))


def costs(name, head):
    """Costs with the arithmetic of one plan for all: counting it takes long and has tests of its own."""
    made = Costs(ALL_CONFIGS[name], LOAD, Recipe(batch=8, head=head))
    work = made.counter.of(Plan(layers=(), head=1))
    made.counter.of = lambda plan: work
    return made


PLANS = [
    Plan.full(DEPTH),
    PLAN,
    Plan(layers=(), head=1),
    Plan(layers=(2,), head=4, method="norm-and-bias"),
]


@pytest.mark.parametrize("name", AVERAGING)
def test_as_many_parameters_are_stored_as_the_exported_model_has(name):
    made = costs(name, "average")
    for plan in PLANS:
        cost = made.of(plan)
        assert cost.stock
        assert cost.stored == exported_size(name, plan), plan.name


def test_what_a_method_folds_away_is_not_stored_with_the_added_layer():
    plan = Plan(layers=(1, 2), head=2, method="lora")
    assert costs("bert", "average").of(plan).stored == exported_size("bert", plan)


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_the_count_is_that_of_a_model_that_is_really_exported(tmp_path, name):
    stock = loaded_by_transformers(tuned_model(name), tmp_path, LABELS)
    assert costs(name, "average").of(PLAN).stored == sum(value.numel() for value in stock.parameters())


def test_predicting_takes_the_time_of_one_layer_more():
    average, family = (Costs(ALL_CONFIGS["bert"], LOAD, Recipe(batch=8, head=head)) for head in ("average", "family"))
    for plan in (Plan.full(DEPTH), Plan(layers=(), head=2)):
        assert average.of(plan).latency > family.of(plan).latency
    # Deeper plans of the family's own head say what a layer takes.
    layer = family.of(Plan(layers=(), head=3)).latency - family.of(Plan(layers=(), head=2)).latency
    added = average.of(Plan(layers=(), head=2)).latency - family.of(Plan(layers=(), head=2)).latency
    assert added == pytest.approx(layer, rel=0.4)
