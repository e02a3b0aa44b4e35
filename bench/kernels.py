"""Our attention, dropout, products and word gradients next to torch's own. `python bench/kernels.py [ROUNDS]`

Prints a table and, as the last line, one flat JSON object of ratios. Attention: the forward and backward pass of one
layer's attention over a batch of 16 texts, each side from the projections that it would have. torch's fused attention
on tokens padded to the longest text, which come padded (nothing is paid for that), on the groups of similar length that
we make, and text by text. Dropout: the forward and backward pass over the states of such a batch. Products: those of a
linear layer, forward and backward; ours differ from torch's only on AMD processors with AVX-512; and ours in bfloat16,
as runs have them on processors with instructions for it, next to ours in float32. Words: the gradient of
the word embeddings, from the lookup to the update, for a vocabulary of 30,522. Both sides in one process, taking turns,
with one thread, by the processor's time; values and gradients are compared first.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from sides import race, row
from torch import Tensor

from frostline.kernels.attention import _fused, _GroupedAttention, _heads
from frostline.kernels.batch_layout import Layout
from frostline.kernels.dropout import Noise, drop
from frostline.kernels.products import fast_products
from frostline.training.half_products import half_products
from frostline.training.word_gradients import lasting_word_gradients

BATCH, HEADS, ROUNDS, REPEATS = 16, 12, 9, 5
DROPOUT = 0.1
TEXTS = {"short texts": (5, 45), "long texts": (20, 256)}  # the fewest and the most tokens


def ours(sides: Sequence[Tensor], layout: Layout, dropout: float) -> Tensor:
    """Packed attention, the backward pass by hand."""
    noise = Noise(0, 0) if dropout else None
    return _GroupedAttention.apply(*sides, layout.groups, [None] * len(layout.groups), HEADS, dropout, noise)


def grouped(sides: Sequence[Tensor], layout: Layout, dropout: float) -> Tensor:
    """The same groups with torch's fused attention and autograd."""
    pieces = []
    for group in layout.groups:
        query, key, value = (_heads(group.pad(side), HEADS) for side in sides)
        gathered = _fused(group, query, key, value, None, None, dropout)
        pieces.append(gathered.transpose(1, 2).flatten(0, 1)[group.real])
    return torch.cat(pieces)[layout.back].flatten(1)


def padded(sides: Sequence[Tensor], layout: Layout, dropout: float) -> Tensor:
    """All texts as long as the longest: (texts, longest, width) in and out, as stock models have them."""
    query, key, value = (_heads(side, HEADS) for side in sides)
    mask = layout.padded.mask[:, None, None, :]
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    return out.transpose(1, 2).flatten(2)


def text_by_text(sides: Sequence[Tensor], layout: Layout, dropout: float) -> Tensor:
    """No padding and no groups: one call for each text."""
    pieces = []
    for text in zip(*(side.split(layout.lengths.tolist()) for side in sides), strict=True):
        query, key, value = (_heads(side[None], HEADS) for side in text)
        out = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        pieces.append(out.transpose(1, 2).flatten(2)[0])
    return torch.cat(pieces)


ARMS = {"padded": padded, "in groups": grouped, "text by text": text_by_text}


def step(attend: Callable[..., Tensor], sides: Sequence[Tensor], layout: Layout, dropout: float) -> list[Tensor]:
    """The output and the gradients of one pass forward and backward."""
    out = attend(sides, layout, dropout)
    return [out.detach(), *torch.autograd.grad(out, sides, torch.ones_like(out) / 7)]


def compare_attention(name: str, lengths: range, width: int, dropout: float, rounds: int) -> dict[str, float]:
    """How many times faster the backward by hand is than each of torch's ways."""
    source = torch.Generator().manual_seed(0)
    layout = Layout(np.random.default_rng(0).integers(lengths.start, lengths.stop, BATCH))
    flat = [torch.randn(layout.tokens, width, generator=source, requires_grad=True) for _ in range(3)]
    wide = [layout.pad(side.detach()).requires_grad_(True) for side in flat]
    given = {arm: wide if arm == "padded" else flat for arm in ARMS}
    if not dropout:
        expected = step(ours, flat, layout, 0.0)
        for arm, attend in ARMS.items():
            found = step(attend, given[arm], layout, 0.0)
            if arm != "padded":  # whose padding has gradients of its own kind
                for one, other in zip(found, expected, strict=True):
                    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    ratios = {}
    for arm, attend in ARMS.items():
        result = race(repeat(step, ours, flat, layout, dropout), repeat(step, attend, given[arm], layout, dropout),
                      rounds=rounds, clock=time.process_time)  # fmt: skip
        row(f"attention, {name}, width {width}, dropout {dropout:g}: {arm}", *result)
        ratios[arm] = result[2]
    return ratios


def compare_dropout(tokens: int, width: int, rounds: int) -> float:
    """How many times faster our dropout is than torch's."""
    states = torch.randn(tokens, width, generator=torch.Generator().manual_seed(0), requires_grad=True)
    noise = Noise(0, 0)

    def pass_through(dropped: Callable[[Tensor], Tensor]) -> Tensor:
        return torch.autograd.grad(dropped(states), states, states.detach())[0]

    result = race(
        repeat(pass_through, partial(drop, probability=DROPOUT, training=True, noise=noise)),
        repeat(pass_through, partial(F.dropout, p=DROPOUT, training=True)),
        rounds=rounds,
        clock=time.process_time,
    )
    row(f"dropout, {tokens} x {width}", *result)
    return result[2]


def compare_products(tokens: int, width: int, wide: int, rounds: int) -> float:
    """How many times faster the products of a linear layer are than with torch's settings."""
    source = torch.Generator().manual_seed(0)
    states = torch.randn(tokens, width, generator=source, requires_grad=True)
    layer = torch.nn.Linear(width, wide)
    gradient = torch.randn(tokens, wide, generator=source)

    def multiply() -> tuple[Tensor, ...]:
        return torch.autograd.grad(layer(states), (states, *layer.parameters()), gradient)

    def quickly() -> tuple[Tensor, ...]:
        with fast_products():
            return multiply()

    for one, other in zip(quickly(), multiply(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-4)
    result = race(repeat(quickly), repeat(multiply), rounds=rounds, clock=time.process_time)
    row(f"products, {tokens} x {width} x {wide}", *result)
    return result[2]


def compare_halves(tokens: int, width: int, wide: int, rounds: int) -> float:
    """How many times faster the products of a linear layer are in bfloat16 than in float32, both our way."""
    source = torch.Generator().manual_seed(0)
    states = torch.randn(tokens, width, generator=source, requires_grad=True)
    layer, half_layer = torch.nn.Linear(width, wide), torch.nn.Linear(width, wide)
    gradient = torch.randn(tokens, wide, generator=source)

    def multiply(own: torch.nn.Linear) -> None:
        torch.autograd.grad(own(states), (states, *own.parameters()), gradient)

    with fast_products(), half_products(half_layer):
        result = race(repeat(multiply, half_layer), repeat(multiply, layer), rounds=rounds, clock=time.process_time)
    row(f"products in bfloat16, {tokens} x {width} x {wide}", *result)
    return result[2]


def compare_words(tokens: int, width: int, rounds: int) -> float:
    """How many times faster the gradient of word embeddings is than torch's, with the update of the optimizer."""
    models = [torch.nn.Embedding(30_522, width) for _ in range(2)]
    optimizers = [torch.optim.AdamW(model.parameters(), fused=True) for model in models]
    ids = torch.randint(30_522, (tokens,), generator=torch.Generator().manual_seed(0))
    ours = models[0]
    ours.get_input_embeddings = lambda: ours

    def update(number: int) -> None:
        models[number](ids).sin().sum().backward()
        optimizers[number].step()
        optimizers[number].zero_grad(set_to_none=True)

    with lasting_word_gradients(ours):
        result = race(repeat(update, 0), repeat(update, 1), rounds=rounds, clock=time.process_time)
    row(f"words, {tokens} x {width}", *result)
    return result[2]


def repeat(function: Callable[..., object], *arguments: object) -> Callable[[], None]:
    """The function many times over: one pass takes a few milliseconds."""

    def run() -> None:
        for _ in range(REPEATS):
            function(*arguments)

    return run


def main() -> None:
    """Run all comparisons."""
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(f"{'':58s} {'ours':>9s}   {'torch':>9s}   {'ratio':>7s}")
    ratios = {}
    for name, ends in TEXTS.items():
        for width in (384, 768):
            for dropout in (0.0, DROPOUT):
                found = compare_attention(name, range(*ends), width, dropout, rounds)
                kind = f"{name.split()[0]}_{width}_{'dropout' if dropout else 'plain'}"
                ratios |= {f"attention_{kind}_vs_{arm.replace(' ', '_')}": ratio for arm, ratio in found.items()}
    for tokens, width in ((400, 384), (400, 3072), (2200, 768)):
        ratios[f"dropout_{tokens}_{width}"] = compare_dropout(tokens, width, rounds)
    for tokens, width, wide in ((860, 384, 1536), (860, 384, 384), (2200, 768, 3072)):
        ratios[f"products_{tokens}_{width}_{wide}"] = compare_products(tokens, width, wide, rounds)
        ratios[f"halves_{tokens}_{width}_{wide}"] = compare_halves(tokens, width, wide, rounds)
    for tokens in (400, 2200):
        ratios[f"words_{tokens}"] = compare_words(tokens, 384, rounds)
    print(json.dumps({name: round(value, 2) for name, value in ratios.items()}))


if __name__ == "__main__":
    main()
