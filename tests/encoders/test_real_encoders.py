"""The promises hold for real weights on real texts: the embedded MiniLM-L6 (BERT) and a real RoBERTa."""

from __future__ import annotations

import pytest
import torch
import transformers

from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import make_head
from frostline.encoders.loading import load_encoder
from frostline.encoders.surgery import permute, reinitialise, skip, truncate
from frostline.kernels.batch_layout import Reads

TEXTS = [
    "A thaw in January.",
    "The ground stays hard a metre down, whatever the sun does; dig below the frost line and it never freezes at all.",
    "no",
    "Why would anyone lay a pipe there?",
    "Snow!",
]
PAIRS = ["It is mild.", "Foundations go deeper than that.", "Yes.", "To save on digging.", "Ice."]


@pytest.fixture(scope="module", params=["embedded", "roberta"])
def encoder(request) -> Encoder:
    if request.param == "embedded":
        return load_encoder(request.getfixturevalue("embedded_encoder"))
    return load_encoder(request.getfixturevalue("shared") / "encoders" / "granite-30m-roberta")


def stock_states(encoder: Encoder, pairs: list[str] | None) -> list[torch.Tensor]:
    """Hugging Face's own way: its tokenizer, its padding, its model."""
    inputs = encoder.tokenizer(TEXTS, pairs, padding=True, return_tensors="pt")
    with torch.inference_mode():
        states = encoder.model(**inputs, output_hidden_states=True).hidden_states
    return [state[inputs["attention_mask"].bool()] for state in states]


def in_double(encoder: Encoder) -> Encoder:
    """The same encoder, computing in float64."""
    found = encoder.copy()
    found.model.double()
    return found


def our_states(encoder: Encoder, pairs: list[str] | None, *, padded: bool) -> list[torch.Tensor]:
    tokens = encoder.tokenize(TEXTS, pairs)
    with torch.inference_mode():
        return list(encoder.states(tokens, encoder.layout(tokens), padded=padded))


@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["single", "pairs"])
@pytest.mark.parametrize("padded", [False, True])
def test_states_equal_hugging_faces(encoder, pairs, padded):
    exact = in_double(encoder)
    ours, theirs = our_states(exact, pairs, padded=padded), stock_states(exact, pairs)
    assert len(ours) == len(theirs) == 7
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, atol=1e-12, rtol=0)


@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["single", "pairs"])
@pytest.mark.parametrize("padded", [False, True])
def test_states_are_as_exact_as_hugging_faces(encoder, pairs, padded):
    """How much float32 rounds depends on the machine; by the last layer of one encoder it can be 3e-5."""
    exact = stock_states(in_double(encoder), pairs)
    ours, theirs = our_states(encoder, pairs, padded=padded), stock_states(encoder, pairs)
    for our, their, right in zip(ours, theirs, exact, strict=True):
        off, theirs_off = ((found - right).square().mean().sqrt().item() for found in (our, their))
        assert off < 1.5 * theirs_off + 1e-8


def test_running_layers_from_stored_states_equals_the_whole(encoder):
    tokens = encoder.tokenize(TEXTS)
    layout = encoder.layout(tokens)
    with torch.inference_mode():
        states = list(encoder.states(tokens, layout))
        for first in range(1, 7):
            again = encoder.run(states[first - 1], layout, first, 6)
            torch.testing.assert_close(again, states[6], atol=1e-5, rtol=0)


def test_the_head_equals_the_stock_head_that_transformers_loads(encoder, tmp_path):
    short = truncate(encoder, 4)
    head = make_head(encoder, labels=2, layer=4, seed=1).eval()
    weights = {f"{head.stock.base_model_prefix}.{name}": value for name, value in short.model.state_dict().items()}
    config = type(short.config).from_dict({**short.config.to_dict(), "num_labels": 2})
    stock = type(head.stock)(config)
    stock.load_state_dict(weights | head.stock.state_dict(), strict=False)
    stock.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    tokens = encoder.tokenize(TEXTS)
    layout = encoder.layout(tokens)
    with torch.inference_mode():
        states = encoder.run(encoder.embed(tokens, layout), layout, 1, 4)
        ours = head(layout.read(states, Reads.FIRST)[:, None])
        theirs = loaded(**encoder.tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
    assert loaded.config.num_hidden_layers == 4
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_surgery_changes_exactly_what_it_says(encoder):
    before = {name: value.clone() for name, value in encoder.model.state_dict().items()}
    changed = reinitialise(encoder, [2, 5], seed=0)
    chosen = {name for number in (2, 5) for name in changed.parts().layers[number - 1]}
    for name, value in changed.model.state_dict().items():
        assert torch.equal(value, before[name]) == (name not in chosen)
    tokens = encoder.tokenize(TEXTS)
    layout = encoder.layout(tokens)
    with torch.inference_mode():
        for other, numbers in (
            (permute(encoder, [2, 1, 3, 6, 5, 4]), (2, 1, 3, 6, 5, 4)),
            (skip(encoder, 3, 4), (1, 2, 5, 6)),
        ):
            states = encoder.embed(tokens, layout)
            for number in numbers:
                states = encoder.run(states, layout, number, number, padded=True)
            inputs = encoder.tokenizer(TEXTS, padding=True, return_tensors="pt")
            stock = other.model(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
            torch.testing.assert_close(stock, states, atol=1e-5, rtol=0)
    assert all(torch.equal(value, before[name]) for name, value in encoder.model.state_dict().items())


def test_texts_beyond_the_models_limit_are_cut_and_counted(encoder):
    tokens = encoder.tokenize(["frost " * 700, "ice"])
    assert tokens.truncated == 1
    assert tokens.lengths[0] == min(encoder.max_length, 512)
    with torch.inference_mode():
        assert list(encoder.states(tokens, encoder.layout(tokens)))[-1].isfinite().all()


def test_the_poolers_of_the_two_are_told_apart(encoder):
    assert encoder.has_pretrained_pooler == (encoder.family.name == "bert")
