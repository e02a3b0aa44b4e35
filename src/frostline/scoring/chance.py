"""What chance gives: the same scores where labels mean nothing, or where the encoder knows nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from frostline.encoders.encoder import Encoder
from frostline.errors import MeasureError
from frostline.scoring.score_inputs import Evidence
from frostline.states.pooled import Pooling, pooled_states

Null = Callable[..., Evidence]


def shuffled(evidence: Evidence, *, poolings: Sequence[Pooling]) -> Evidence:
    """The same states with the labels dealt out at random."""
    order = torch.randperm(len(evidence), generator=torch.Generator().manual_seed(evidence.seed))
    return replace(evidence, labels=evidence.labels[order])


def random_encoder(evidence: Evidence, *, poolings: Sequence[Pooling]) -> Evidence:
    """The same texts seen by an encoder of the same shape with random weights."""
    from transformers import AutoModel

    known, tokens = evidence.encoder, evidence.tokens
    if known is None or tokens is None:
        raise MeasureError("a random encoder of the same shape needs the encoder and the texts")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(evidence.seed)
        model = AutoModel.from_config(known.config)
    encoder = Encoder(model.to(known.device), known.tokenizer, name=f"random {known.name}", has_pretrained_pooler=False)
    states = pooled_states(encoder, tokens, poolings=poolings)
    return replace(evidence, states=states, encoder=encoder)


NULLS: dict[str, Null] = {"shuffled": shuffled, "random": random_encoder}
