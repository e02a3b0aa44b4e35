"""Pooled states equal a loop over texts through Hugging Face's model, in the order of the texts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.tiny import CONFIGS, DEPTH, padded_inputs, random_tokens, tiny_encoder

from frostline.errors import MeasureError, OptionError
from frostline.progress import Step
from frostline.states.pooled import POOLINGS, pooled_states

PICK = {
    "mean": lambda text, ids: text[1:].mean(0),
    "first": lambda text, ids: text[0],
    "all": lambda text, ids: text.mean(0),
    "released": lambda text, ids: text[[place for place, number in enumerate(ids) if number not in (0, 1, 2)]].mean(0),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooled_states_equal_a_loop_over_texts(name, pooling):
    encoder, tokens = tiny_encoder(name), random_tokens()
    pooled = pooled_states(encoder, tokens, poolings=[pooling], tokens_per_batch=40)[pooling]
    assert pooled.shape == (DEPTH + 1, len(tokens), encoder.width)
    for row in range(len(tokens)):
        inputs = padded_inputs(encoder, tokens.take([row]))
        with torch.inference_mode():
            states = encoder.model(**inputs, output_hidden_states=True).hidden_states
        expected = torch.stack([PICK[pooling](state[0], tokens.take([row]).ids) for state in states])
        torch.testing.assert_close(pooled[:, row], expected, atol=1e-5, rtol=0)


def test_the_released_mean_leaves_out_the_ids_0_1_and_2_and_takes_all_where_nothing_else_is_left():
    encoder, tokens = tiny_encoder("roberta"), random_tokens((6, 3))
    ids = tokens.ids.copy()
    ids[[0, 4, 5]] = [0, 2, 2]
    ids[6:] = [0, 2, 2]
    tokens = replace(tokens, ids=ids)
    every = [encoder.states(tokens.take([row]), encoder.layout(tokens.take([row]))) for row in (0, 1)]
    with torch.inference_mode():
        expected = [
            torch.stack([state[kept].mean(0) for state in states])
            for states, kept in zip(every, ([1, 2, 3], [0, 1, 2]), strict=True)
        ]
    found = pooled_states(encoder, tokens, poolings=["released"])["released"]
    torch.testing.assert_close(found, torch.stack(expected, 1), atol=1e-5, rtol=0)


def test_progress_ends_at_all_texts():
    steps: list[Step] = []
    tokens = random_tokens()
    pooled_states(tiny_encoder("bert"), tokens, progress=steps.append, tokens_per_batch=40)
    done = [step.done for step in steps]
    assert len(done) > 1
    assert done == sorted(set(done))
    assert (done[-1], steps[-1].total) == (len(tokens), len(tokens))


def test_the_batch_size_does_not_change_the_states():
    encoder, tokens = tiny_encoder("mpnet"), random_tokens()
    torch.testing.assert_close(
        pooled_states(encoder, tokens, tokens_per_batch=1)["mean"],
        pooled_states(encoder, tokens)["mean"],
        atol=1e-5,
        rtol=0,
    )


def test_an_unknown_pooling_is_refused():
    with pytest.raises(
        OptionError, match=r"pooling 'means' \(did you mean mean\?\): must be one of mean, first, all, released"
    ):
        pooled_states(tiny_encoder("bert"), random_tokens(), poolings=["means"])


def test_states_that_are_not_finite_are_an_error_with_layer_and_text():
    encoder = tiny_encoder("bert")
    with torch.no_grad():
        encoder.model.encoder.layer[1].output.dense.bias[0] = float("inf")
    with pytest.raises(MeasureError, match="state 2 of text 1 is not finite"):
        pooled_states(encoder, random_tokens())


def test_several_poolings_come_from_one_pass():
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    together = pooled_states(encoder, tokens, poolings=POOLINGS)
    assert list(together) == list(POOLINGS)
    for pooling in POOLINGS:
        assert torch.equal(together[pooling], pooled_states(encoder, tokens, poolings=[pooling])[pooling])


def test_states_beyond_the_memory_limit_lie_on_disk_and_are_the_same(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    in_memory = pooled_states(encoder, tokens)["mean"]
    on_disk = pooled_states(encoder, tokens, memory_limit=1000)["mean"]
    assert torch.equal(on_disk, in_memory)
    assert list(tmp_path.iterdir()) == []  # the file has no name: nothing is left behind even after a kill
