"""The key of cached states is frozen: what is on the disks of users stays valid."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch
from tests.tiny import ALL_CONFIGS, random_tokens, tiny_encoder

from frostline.files.checksums import bits_of
from frostline.kernels.batch_layout import Reads
from frostline.states.cache import _key
from frostline.states.frozen import FrozenStates

# What of a configuration says nothing about the layers below, whatever the family.
UPPER = {
    "num_hidden_layers", "n_layers", "num_hidden_groups", "layer_types", "architectures", "_name_or_path", "dtype",
    "id2label", "label2id", "problem_type", "transformers_version", "classifier_dropout", "classifier_pooling",
}  # fmt: skip


def written_out(encoder, tokens, layer, *, first_only):
    """The key as the second format of the cache has it, written out."""
    config = {name: value for name, value in encoder.config.to_dict().items() if name not in UPPER}
    kinds = (getattr(encoder.config, "layer_types", None) or [])[:layer]
    about = [2, layer, first_only, config, encoder.order[:layer], kinds, torch.__version__, torch.get_num_threads(),
             encoder.device.type]  # fmt: skip
    digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
    parts = encoder.parts()
    named = dict(parts.embeddings)
    for below in parts.layers[:layer]:
        named |= below
    for name in sorted(named):
        digest.update(f"{name} {tuple(named[name].shape)}".encode())
        digest.update(bits_of(named[name]))
    for array in (tokens.ids, tokens.types, tokens.lengths):
        digest.update(bits_of(array))
    return digest.hexdigest()[:32]


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize(("reads", "first_only"), [(Reads.ALL, False), (Reads.FIRST, True)])
def test_states_are_looked_for_where_they_have_been_kept(name, layer, reads, first_only):
    encoder, tokens = tiny_encoder(name), random_tokens()
    states = FrozenStates(encoder, tokens, layer, dtype="float16", reads=reads)
    assert _key(states) == written_out(encoder, tokens, layer, first_only=first_only)
