"""Chance levels: the same scores with random labels, or with a random encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from frostline.encoders.encoder import Encoder
from frostline.errors import MeasureError
from frostline.scoring.score_inputs import Evidence
from frostline.states.pooled import Pooling, pooled_states


def shuffled(evidence: Evidence, *, poolings: Sequence[Pooling]) -> Evidence:
    """Return the same states with shuffled labels."""
    order = torch.randperm(len(evidence), generator=torch.Generator().manual_seed(evidence.seed))
    return replace(evidence, labels=evidence.labels[order])


def random_encoder(evidence: Evidence, *, poolings: Sequence[Pooling]) -> Evidence:
    """Return the states of the same texts from an encoder of the same shape with random weights."""
    from transformers import AutoModel

    like, tokens = evidence.encoder, evidence.tokens
    if like is None or tokens is None:
        raise MeasureError("a random encoder of the same shape needs the encoder and the texts")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(evidence.seed)
        model = AutoModel.from_config(like.config)
    encoder = Encoder(model.to(like.device), like.tokenizer, name=f"random {like.name}", has_pretrained_pooler=False)
    return replace(evidence, states=pooled_states(encoder, tokens, poolings=poolings), encoder=encoder)


NULLS: dict[str, Callable[..., Evidence]] = {"shuffled": shuffled, "random": random_encoder}
