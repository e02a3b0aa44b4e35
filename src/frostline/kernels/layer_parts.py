"""The modules of one layer, as the kernels need them; each family finds them in its own layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, kw_only=True)
class LayerParts:
    """The modules of one post-norm layer, for running it on unpadded tokens.

    output = output_norm(x + drop(down(act(up(x))))), where x = attention_norm(input + drop(project(attention(input)))).
    """

    query: nn.Module
    key: nn.Module
    value: nn.Module
    project: nn.Module
    attention_norm: nn.Module
    up: nn.Module
    activation: Any
    down: nn.Module
    output_norm: nn.Module
    heads: int
    attention_dropout: float = 0.0
    project_dropout: float = 0.0
    down_dropout: float = 0.0
    attention_adapter: nn.Module | None = None  # applied to the output of attention, before it is added to the input
    output_adapter: nn.Module | None = None  # applied to the output of the feed-forward part, before it is added
    prefix: nn.Module | None = None  # returns additional keys and values, (count, width) each
