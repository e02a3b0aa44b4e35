"""A head on the mean of all tokens that the family's stock class can hold: as one more layer below the stock head.

A layer whose queries are zero attends to all tokens equally. If its values pass states through, its output projection
is large and its feed-forward part is zero, then what it returns for the first token is the normalised mean of all
tokens, and the stock head, which reads the first token, reads that. In training the mean is computed directly; the
layer is made when the model is saved, so that transformers alone loads a model with a mean-pooled head.
"""

from __future__ import annotations

import copy
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frostline.encoders.encoder import Encoder
from frostline.encoders.families._family import Family
from frostline.encoders.heads import FamilyHead, HeadKind, make_head
from frostline.errors import OptionError
from frostline.kernels.batch_layout import Reads

_SCALE = 1000.0  # of the mean: the layer adds it to the first token's own state, which is to count for nothing
_GAIN = 0.3  # of the stock head's dense layer at the start, so that its activation is nearly linear


class AverageHead(FamilyHead):
    """The stock head of a family on the normalised mean of all tokens."""

    def __init__(self, head: FamilyHead, *, width: int, epsilon: float) -> None:
        """Put the mean below a stock head.

        Args:
            head: the stock head; its modules are used, not copied.
            width: width of the states.
            epsilon: of the norms of the family's layers.
        """
        super().__init__(head.stock, head.kind)
        self.width, self.epsilon = width, epsilon

    @property
    def reads(self) -> Reads:
        """All tokens."""
        return Reads.ALL

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits from the states of the layer at which the head reads.

        Args:
            states: (texts, tokens, width); for multiple choice (questions, choices, tokens, width).
            mask: true at real tokens; None if all are real.
        """
        weights = states.new_ones(states.shape[:-1]) if mask is None else mask.to(states.dtype)
        mean = (states * weights[..., None]).sum(-2) / weights.sum(-1, keepdim=True)
        # Both norms of the layer that the saved model has.
        average = self._normed(self._normed(_SCALE * mean + states[..., 0, :]))
        return super().forward(average[..., None, :])

    def _normed(self, states: Tensor) -> Tensor:
        return F.layer_norm(states, (self.width,), eps=self.epsilon)


def make_average_head(
    encoder: Encoder, *, labels: int, kind: HeadKind = "classification", seed: int = 0
) -> AverageHead:
    """Return a fresh head on the mean of all tokens, for the encoder's states.

    Args:
        encoder: the encoder whose states it will read.
        labels: number of classes; 1 for regression and multiple choice.
        kind: kind of task.
        seed: random seed of the fresh weights.
    """
    if not can_average(encoder):
        raise OptionError(f"head 'average': the layers of {encoder.family.title} cannot average tokens; use 'mean'")
    below_top = 0  # the pretrained pooler is for the first token of the last layer, so that it is not used
    head = make_head(encoder, labels=labels, kind=kind, layer=below_top, seed=seed)
    source = torch.Generator().manual_seed(seed)
    for dense in [module for module in head.modules() if isinstance(module, nn.Linear)][:-1]:
        if dense.weight.is_meta:
            continue
        nn.init.orthogonal_(dense.weight, gain=_GAIN, generator=source)
        nn.init.zeros_(dense.bias)
    norm = encoder.family.layers(encoder.model)[0].get_submodule(encoder.family.norms["output"])
    return AverageHead(head, width=encoder.width, epsilon=float(cast(nn.LayerNorm, norm).eps))


def can_average(encoder: Encoder) -> bool:
    """Whether one more layer of the encoder's own kind can average tokens."""
    return encoder.family.can_average and not encoder.shares_layers


def averaging_layer(family: Family, like: nn.Module) -> nn.Module:
    """Return a layer that writes the normalised mean of all tokens to each of them.

    Args:
        family: the family of the layer.
        like: a layer of the encoder, for its sizes.
    """
    layer = copy.deepcopy(like)
    with torch.no_grad():
        for value in layer.parameters():
            value.zero_()
        for path in family.norms.values():
            layer.get_submodule(path).get_parameter("weight").fill_(1.0)
        for name, scale in (("value", 1.0), ("project", _SCALE)):
            layer.get_submodule(family.projections[name]).get_parameter("weight").fill_diagonal_(scale)
    return layer
