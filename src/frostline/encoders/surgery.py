"""Changes to the pretrained layers before any tuning: re-initialise, permute, skip, truncate.

Each function returns a new encoder and does not change the given one. Embeddings, including all parameters that several
layers share, never change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from frostline.encoders.encoder import Encoder, set_config, unroll
from frostline.errors import OptionError

_DEVIATION = 0.02
_CUT = 0.04
# The script of Tamkin et al. 2020 took the bounds for numbers of standard deviations: the truncated normal is nearly
# uniform, with a standard deviation of 0.00046. It also kept the pretrained biases.
_RELEASED_CUT = _CUT * _DEVIATION


def operate(encoder: Encoder, surgery: Mapping[str, Any], *, seed: int) -> Encoder:
    """Return the encoder after a surgery that is written as plain JSON values; the same one if the surgery is empty.

    Args:
        encoder: the encoder; not changed.
        surgery: {"reinitialise": [layers], "keep_norms": false, "as_released": false} or {"order": [layers]}.
        seed: random seed of new weights.
    """
    allowed = {"reinitialise", "keep_norms", "as_released", "order"}
    if unknown := sorted(surgery.keys() - allowed):
        raise OptionError(f"surgery {unknown[0]!r}: must be one of {', '.join(sorted(allowed))}")
    if surgery.get("reinitialise"):
        options = {name: bool(surgery.get(name, False)) for name in ("keep_norms", "as_released")}
        encoder = reinitialise(encoder, surgery["reinitialise"], seed=seed, **options)
    if "order" in surgery:
        encoder = permute(encoder, surgery["order"])
    return encoder


def reinitialise(
    encoder: Encoder, layers: Collection[int], *, seed: int, keep_norms: bool = False, as_released: bool = False
) -> Encoder:
    """Return an encoder whose chosen layers have random weights, as in Tamkin et al. 2020.

    Weights and biases come from a normal distribution with standard deviation 0.02, truncated at two deviations; norms
    get weight 1 and bias 0.

    Args:
        encoder: the encoder; not changed.
        layers: layer numbers, from 1.
        seed: random seed; each layer has its own stream, so a layer gets the same weights in every selection.
        keep_norms: whether to keep the pretrained norms of the chosen layers.
        as_released: whether to follow the paper's script instead of its text: the normal truncated at 0.0008, which
            has a standard deviation of 0.00046, and biases kept.
    """
    _check_layers(encoder, layers)
    new = unroll(encoder)
    released = ", as_released=True" if as_released else ""
    new.revision = (
        f"{encoder.revision}+reinitialise({sorted(set(layers))}, seed={seed}, keep_norms={keep_norms}{released})"
    )
    new.is_changed = True
    modules = new.family.layers(new.model)
    for number in sorted(set(layers)):
        source = torch.Generator().manual_seed(seed * 1_000_003 + number)
        for module in [modules[number - 1], *new.family.attached(new.model, new.order[number - 1])]:
            _reinitialise(module, source, keep_norms=keep_norms, as_released=as_released)
    return new


def permute(encoder: Encoder, order: Sequence[int]) -> Encoder:
    """Return an encoder with its layers in another order; order[0] is the number of the new lowest layer."""
    if sorted(order) != list(range(1, encoder.depth + 1)):
        raise OptionError(f"layer order {list(order)}: must contain each of 1..{encoder.depth} once")
    return _select(encoder, order)


def skip(encoder: Encoder, first: int, last: int) -> Encoder:
    """Return an encoder without the layers first..last: the layer below them feeds the one above."""
    _check_layers(encoder, [first, last])
    if first > last:
        raise OptionError(f"layers {first}..{last} to skip: the first is above the last")
    kept = [number for number in range(1, encoder.depth + 1) if not first <= number <= last]
    return _select(encoder, kept)


def truncate(encoder: Encoder, layer: int) -> Encoder:
    """Return an encoder that ends at the layer."""
    _check_layers(encoder, [layer])
    return _select(encoder, range(1, layer + 1))


def _select(encoder: Encoder, numbers: Sequence[int]) -> Encoder:
    """Return the encoder with these of its layers, in this order."""
    if not numbers:
        raise OptionError(f"{encoder.name}: no layer would remain")
    family = encoder.family
    keeps_sharing = encoder.shares_layers and family.keeps_sharing(encoder.config, numbers)
    new = encoder.copy() if keeps_sharing else unroll(encoder)
    layers = family.layers(new.model)
    new.order = tuple(encoder.order[number - 1] for number in numbers)
    set_config(new.model, family.reordered(new.config, numbers, new.order))
    if not keeps_sharing:
        family.set_layers(new.model, [layers[number - 1] for number in numbers])
    new.revision = f"{encoder.revision}+layers{list(numbers)}"
    new.is_changed = True
    if numbers[-1] != encoder.depth:
        # A pretrained pooler, like any pretrained part of a head, belongs to the layer on which it was trained.
        new.has_pretrained_pooler, new.folder = False, None
    return new


def _check_layers(encoder: Encoder, layers: Collection[int]) -> None:
    wrong = sorted(number for number in layers if not 1 <= number <= encoder.depth)
    if wrong:
        raise OptionError(f"layer {wrong[0]}: {encoder.name} has layers 1..{encoder.depth}")


def _reinitialise(layer: nn.Module, source: torch.Generator, *, keep_norms: bool, as_released: bool) -> None:
    cut = _RELEASED_CUT if as_released else _CUT
    for module in layer.modules():
        is_norm = "norm" in type(module).__name__.lower()
        for name, parameter in module.named_parameters(recurse=False):
            if is_norm and not keep_norms:
                nn.init.constant_(parameter, 1.0 if name == "weight" else 0.0)
            elif not is_norm and not (as_released and name == "bias"):
                nn.init.trunc_normal_(parameter, std=_DEVIATION, a=-cut, b=cut, generator=source)
