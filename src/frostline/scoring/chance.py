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

    def shuffle(given: Evidence) -> Evidence:
        order = torch.randperm(len(given), generator=torch.Generator().manual_seed(given.seed))
        return replace(given, labels=given.labels[order])

    return evidence.with_each(shuffle)


def random_encoder(evidence: Evidence, *, poolings: Sequence[Pooling]) -> Evidence:
    """Return the states of the same texts from an encoder of the same shape with random weights."""
    from transformers import AutoModel

    like = evidence.encoder
    if like is None or evidence.tokens is None:
        raise MeasureError("a random encoder of the same shape needs the encoder and the texts")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(evidence.seed)
        model = AutoModel.from_config(like.config)
    encoder = Encoder(model.to(like.device), like.tokenizer, name=f"random {like.name}", has_pretrained_pooler=False)

    def of_rows(given: Evidence) -> Evidence:
        assert given.tokens is not None  # noqa: S101 (all rows come from the same measurement)
        chosen = [pooling for pooling in poolings if pooling in given.states]
        return replace(given, states=pooled_states(encoder, given.tokens, poolings=chosen), encoder=encoder)

    return evidence.with_each(of_rows)


NULLS: dict[str, Callable[..., Evidence]] = {"shuffled": shuffled, "random": random_encoder}
