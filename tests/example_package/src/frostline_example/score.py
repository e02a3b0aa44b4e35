"""A layer score: how long the states are."""

from __future__ import annotations

from torch import Tensor

from frostline.scoring.scores import layer_score


@layer_score(better="high", paper="an example", needs="nothing")
def loudness(states: Tensor, labels: Tensor) -> Tensor:
    """Mean length of the states; high means loud.

    Args:
        states: (layers, texts, width).
        labels: (texts,); not needed here.
    """
    return states.double().norm(dim=-1).mean(dim=1)
