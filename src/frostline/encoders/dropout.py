"""Dropout probabilities of an encoder's model or of a head."""

from __future__ import annotations

from torch import nn

from frostline.encoders.families._family import Family


def set_dropout(module: nn.Module, probability: float, *, family: Family) -> None:
    """Give every dropout in the module this probability.

    Args:
        module: an encoder's model or a head, or both in one.
        probability: dropout probability, from 0 to 1.
        family: the family, which names the probabilities outside `nn.Dropout`.
    """
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = probability
        for name in family.dropout_attributes:
            if hasattr(part, name):
                setattr(part, name, probability)
