"""Heads of one shape that read different layers, run as one module.

Their weights are stacked, and the stock code of one head is mapped over them: a step of all heads costs little more
than a step of one, most of which is call overhead.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from frostline.encoders.heads import FamilyHead, MeanHead


class HeadStack(nn.Module):
    """Several heads, each reading its own states of the same texts.

    In training all use the same dropout masks, so that each gives the output it would give alone.
    """

    def __init__(self, heads: Sequence[FamilyHead | MeanHead]) -> None:
        """Stack copies of the heads' weights.

        Args:
            heads: heads of one encoder, task and kind.
        """
        super().__init__()
        self.count = len(heads)
        self.kind = heads[0].kind
        self.reads = heads[0].reads
        weights, fixed = stack_module_state(list(heads))
        self._names = {name.replace(".", "/"): name for name in weights}  # a parameter's own name has no dots
        for own, name in self._names.items():
            self.register_parameter(own, nn.Parameter(weights[name].detach()))
        if fixed:
            raise ValueError(f"heads with buffers cannot be stacked: {', '.join(fixed)}")
        # In a tuple, where torch does not look for parameters: only the code of this head is used, not its weights.
        self._code = (copy.deepcopy(heads[0]).to("meta"),)

    def train(self, mode: bool = True) -> HeadStack:
        """Set training or evaluation mode, also of the code that is run."""
        super().train(mode)
        self._code[0].train(mode)
        return self

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the logits of all heads, (..., outputs, heads), from states (..., tokens, heads, width).

        Args:
            states: states of the layer that each head reads, in the shape for one head plus the axis of heads.
            mask: true at real tokens; None if all are real.
        """
        weights: dict[str, Tensor] = {name: self.get_parameter(own) for own, name in self._names.items()}

        def call_head(head_weights: dict[str, Tensor], head_states: Tensor) -> Tensor:
            return cast(Tensor, functional_call(self._code[0], head_weights, (head_states, mask)))

        return vmap(call_head, in_dims=(0, -2), out_dims=-1, randomness="same")(weights, states)
