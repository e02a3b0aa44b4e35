"""Products of linear layers in bfloat16 while an encoder trains on a CPU; everything else stays float32.

Processors with instructions for bfloat16 multiply it twice as fast as float32, and products take two thirds of a
training step. torch's autocast rounds more than the products, which is not faster on a CPU. Here weights, their
updates, sums, norms and attention keep float32, and evaluation computes in float32 throughout.

oneDNN prepares a product once for each shape, which takes longer than the product itself, and every batch has another
number of tokens. So rows of zeros fill matrices up to a multiple of 64, and few shapes are left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from frostline.records import Recipe

_ROWS = 64  # matrices have a multiple of so many


def multiplies_halves_fast() -> bool:
    """Whether the processor has instructions for products of bfloat16 numbers."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def precision_of(model: nn.Module, recipe: Recipe) -> contextlib.AbstractContextManager[None]:
    """Return the context in which a model on the CPU trains with the recipe's precision."""
    return half_products(model) if recipe.precision == "bfloat16" else contextlib.nullcontext()


def usual_precision(device: torch.device) -> Literal["float32", "bfloat16"]:
    """Return the precision that trials of a run have on a device: bfloat16 on a CPU that multiplies it fast."""
    return "bfloat16" if device.type == "cpu" and multiplies_halves_fast() else "float32"


@contextlib.contextmanager
def half_products(model: nn.Module) -> Iterator[None]:
    """Multiply in bfloat16 in a model's linear layers on the CPU within the block, wherever gradients are recorded."""
    changed = [module for module in model.modules() if type(module) is nn.Linear and _can_change(module)]
    for module in changed:
        module.forward = partial(_forward, module)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _can_change(module: nn.Linear) -> bool:
    is_own = "forward" in vars(module)  # someone else's replacement stays
    return not is_own and module.weight.device.type == "cpu" and module.weight.dtype == torch.float32


def _forward(module: nn.Linear, states: Tensor) -> Tensor:
    if not torch.is_grad_enabled() or states.dtype != torch.float32:
        return F.linear(states, module.weight, module.bias)
    product: Tensor = _HalfLinear.apply(states, module.weight, module.bias)  # type: ignore[no-untyped-call]
    return product


class _HalfLinear(torch.autograd.Function):
    """A linear layer whose three products, one forward and two backward, take and give bfloat16."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        half, half_weight = _filled_half(states), weight.bfloat16()
        needs_states, needs_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(half if needs_weight else None, half_weight if needs_states else None)
        product = _rows_of(F.linear(half, half_weight), states.shape[:-1])
        return product if bias is None else product.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        half, half_weight = ctx.saved_tensors
        half_rows = _filled_half(gradient)
        of_states = of_weight = of_bias = None
        if half_weight is not None:
            of_states = _rows_of(half_rows @ half_weight, gradient.shape[:-1])
        if half is not None:
            of_weight = (half_rows.t() @ half).float()
        if ctx.needs_input_grad[2]:
            of_bias = gradient.flatten(0, -2).sum(0)
        return of_states, of_weight, of_bias


def _filled_half(states: Tensor) -> Tensor:
    """Return the rows of states (..., width) in bfloat16, and rows of zeros up to a multiple of 64."""
    rows = states.flatten(0, -2)
    filled = rows.new_empty((-(-len(rows) // _ROWS) * _ROWS, rows.shape[1]), dtype=torch.bfloat16)
    filled[: len(rows)] = rows
    filled[len(rows) :] = 0
    return filled


def _rows_of(filled: Tensor, shape: torch.Size) -> Tensor:
    """Return the first rows of a product in float32, (*shape, width), without those that were filled up."""
    rows = torch.empty((*shape, filled.shape[1]), dtype=torch.float32)
    rows.view(-1, filled.shape[1]).copy_(filled[: shape.numel()])
    return rows
