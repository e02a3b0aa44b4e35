from __future__ import annotations

import pytest
import torch
from tests.tiny import CONFIGS, DEPTH, padded_inputs, tiny_encoder
from tests.training.tuning_tools import many_tokens

from frostline.kernels.batch_layout import Reads
from frostline.states.frozen import states_of_layers


@pytest.mark.parametrize("name", CONFIGS)
def test_states_of_all_layers_are_the_encoders_in_the_order_that_is_asked_for(name):
    encoder, tokens = tiny_encoder(name), many_tokens()
    with torch.no_grad():
        found = encoder.model(**padded_inputs(encoder, tokens), output_hidden_states=True).hidden_states
    # Where there is a final norm, Hugging Face's last state comes after it; heads have it, too.
    theirs = torch.stack(found[1 : DEPTH + 1 - bool(encoder.family.final_norm_path)], 2)
    layers = theirs.shape[2]
    firsts = states_of_layers(encoder, tokens, dtype="float32", reads=Reads.FIRST).rows([7, 2])
    torch.testing.assert_close(firsts[:, :layers], theirs[[7, 2], 0], atol=1e-5, rtol=1e-5)
    wholes = states_of_layers(encoder, tokens, dtype="float32", reads=Reads.ALL).rows([7, 2])
    ends = int(tokens.lengths[7]), int(tokens.lengths[2])
    expected = torch.cat([theirs[7, : ends[0]], theirs[2, : ends[1]]])
    torch.testing.assert_close(wholes[:, :layers], expected, atol=1e-5, rtol=1e-5)


def test_states_that_half_precision_cannot_hold_are_kept_in_single_precision():
    encoder = tiny_encoder("bert")
    fine = states_of_layers(encoder, many_tokens(), dtype="float16", reads=Reads.FIRST)
    assert fine.kept is not None and str(fine.kept.dtype) == "float16"
    with torch.no_grad():
        encoder.model.encoder.layer[1].output.LayerNorm.bias.fill_(1e5)
    large = states_of_layers(encoder, many_tokens(), dtype="float16", reads=Reads.FIRST)
    assert large.kept is not None and str(large.kept.dtype) == "float32"
    assert bool(large.rows([0]).isfinite().all())
