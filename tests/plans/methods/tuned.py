"""Tiny models made ready by a method, and what the tests of methods do with them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from tests.tiny import random_tokens, tiny_encoder
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.records import Plan
from frostline.training.model import Tunable, make_tunable

WIDTH, INNER, OUTPUTS = 32, 48, 3  # of the tiny models, and of the heads here
PLANS = {"apart": ((2, 4), 4), "head below the top": ((2, 3), 3), "all": ((1, 2, 3, 4), 4)}


def tuned(
    name: str,
    method: str,
    layers: tuple[int, ...] = (2, 4),
    head: int = 4,
    *,
    encoder: Encoder | None = None,
    seed: int = 0,
    **options: Any,
) -> Tunable:
    """A tiny model of the family, made ready for these layers."""
    plan = Plan(layers=layers, head=head, method=method, options=options)
    return make_tunable(encoder or _shared(name), plan, outputs=OUTPUTS, seed=seed)


@cache
def _shared(name: str) -> Encoder:
    """One for all tests: making a model ready copies it."""
    return tiny_encoder(name)


def shake(tunable: Tunable) -> Tunable:
    """Give all that trains weights so large that leaving any of them out would show."""
    source = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in tunable.trainable().values():
            parameter.add_(torch.randn(parameter.shape, generator=source), alpha=0.3)
    return tunable


def logits(tunable: Tunable, *, padded: bool = False) -> Tensor:
    """Of the usual tokens."""
    tokens = random_tokens()
    layout = tunable.encoder.layout(tokens)
    return tunable.logits(tunable.start(tokens, layout), layout, padded=padded)


def states(tunable: Tunable, *, padded: bool = False) -> Tensor:
    """Of all the usual tokens, at the head."""
    tokens, encoder = random_tokens(), tunable.encoder
    layout = encoder.layout(tokens)
    return encoder.run(encoder.embed(tokens, layout), layout, 1, tunable.plan.head, padded=padded)


def count(tunable: Tunable) -> int:
    """Numbers that train, the head's aside."""
    return sum(value.numel() for name, value in tunable.trainable().items() if not name.startswith("head."))
