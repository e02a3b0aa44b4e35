"""FLOPs and memory of a training step, from the configuration alone.

The step itself runs on a few tokens and two or three layers without pretrained weights, while a counter adds up
floating-point operations, so that a new family or method needs no formula. Any batch and any depth follow from that:
the cost of a layer grows with the number of tokens, with the squares of the texts' lengths, or not at all, and all
layers above the lowest cost the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from frostline.encoders.encoder import Encoder
from frostline.encoders.families._family import Config
from frostline.encoders.heads import HeadKind
from frostline.encoders.surgery import skip, truncate
from frostline.kernels.batch_layout import Ints, Layout, group_sizes
from frostline.kernels.dropout import Noise
from frostline.plans.methods import METHODS
from frostline.records import Plan
from frostline.training.dataset import frozen_at
from frostline.training.model import HeadChoice, Tunable, make_tunable

# (texts, length) of the batches that are counted; five, as there are five terms.
_COUNTED = ((1, 2), (2, 2), (1, 4), (1, 8), (2, 4))
_COUNTED_WHOLE = 4  # encoders of up to this depth are counted as a whole

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Count = Callable[[Tunable, int, int], list[float]]  # of a batch with this number of texts and this length

# Counts of this process, by encoder and head, then by plan: a study asks for the same ones again and again.
_COUNTED_BEFORE: dict[str, dict[str, Numbers]] = {}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The numbers that the cost of batches depends on; shapes of several batches add up."""

    batches: float
    texts: float
    tokens: float  # padding included for families that need it
    squares: float  # of the lengths, padding within attention's groups included
    longest: float  # the sum over batches of the longest length

    def __add__(self, other: Shape) -> Shape:
        return Shape(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    def times(self, factor: float) -> Shape:
        """Return this shape scaled to `factor` times as many batches."""
        return Shape(**{name: getattr(self, name) * factor for name in self.__dataclass_fields__})

    def terms(self) -> list[float]:
        """Return the terms of the polynomials that `Amount` evaluates."""
        return [getattr(self, name) for name in self.__dataclass_fields__]


def shape_of(lengths: Ints, *, is_packed: bool) -> Shape:
    """Return the shape of one batch of texts of these lengths.

    Args:
        lengths: number of tokens of each text.
        is_packed: whether the family runs without padding.
    """
    longest = int(lengths.max())
    sizes = group_sizes(lengths) if is_packed else [(len(lengths), longest)]
    return Shape(
        batches=1,
        texts=len(lengths),
        tokens=float(lengths.sum()) if is_packed else float(longest * len(lengths)),
        squares=float(sum(texts * length**2 for texts, length in sizes)),
        longest=longest,
    )


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A number of operations or bytes that depends on the shape of a batch."""

    coefficients: tuple[float, ...]

    def of(self, shape: Shape) -> float:
        """Return the value for a shape, or for the sum of several."""
        return max(0.0, float(np.dot(self.coefficients, shape.terms())))


@dataclass(frozen=True, kw_only=True)
class Work:
    """FLOPs and bytes of a plan's passes.

    Args:
        frozen: operations of computing the frozen states, once.
        forward: operations of a training step's forward pass, from the frozen states on.
        backward: operations of its backward pass.
        saved: bytes that the forward pass keeps for the backward pass.
        one_layer: bytes of that for one layer, about as much as a layer holds while it runs, forward or backward.
        inference: operations of a prediction, through all kept layers.
    """

    frozen: Amount
    forward: Amount
    backward: Amount
    saved: Amount
    one_layer: Amount
    inference: Amount


def weightless_encoder(config: Config) -> Encoder:
    """Return an encoder of this configuration whose weights have shapes only."""
    from transformers import AutoModel

    with torch.device("meta"):
        return Encoder(AutoModel.from_config(config), name=str(config.model_type))


class Counter:
    """Counts FLOPs and bytes of plans on one encoder, each kind of plan once."""

    def __init__(
        self, encoder: Encoder, *, outputs: int, kind: HeadKind = "classification", head: HeadChoice = "family"
    ) -> None:
        """Prepare to count.

        Args:
            encoder: an encoder without weights.
            outputs: number of outputs of the head.
            kind: kind of task.
            head: the family's own head, or a mean-pooled one.
        """
        self._encoder = encoder
        self._make = partial(make_tunable, outputs=outputs, kind=kind, head=head)
        self._part = cache(self._cut)
        same = f"{encoder.config.to_json_string(use_diff=False)} {outputs} {kind} {head}"
        self._counts = _COUNTED_BEFORE.setdefault(same, {})

    def of(self, plan: Plan) -> Work:
        """Return the FLOPs and bytes of a plan."""
        training = self._training(plan)
        embed, lowest, layer, head = self._passes().T
        added = 0 * layer
        if not METHODS[plan.method].is_stock:  # added parameters also run in predictions
            added = len(plan.layers) * (self._passes(plan)[:, 2] - layer)

        def through(layers: int) -> Numbers:
            return np.asarray(embed + (lowest + (layers - 1) * layer if layers else 0))

        return Work(
            frozen=_amount(through(plan.lowest - 1) if plan.lowest else 0 * embed),
            forward=_amount(training[:, 0]),
            backward=_amount(training[:, 1]),
            saved=_amount(training[:, 2]),
            one_layer=_amount(self._one_layer()),
            inference=_amount(through(plan.head) + head + added),
        )

    def _training(self, plan: Plan) -> Numbers:
        """Return coefficients (terms, 3): forward and backward operations and saved bytes of a step.

        A plan consists of its lowest layer, those between, and the last one, of which a head may read one token.
        """
        if self._encoder.depth <= _COUNTED_WHOLE:
            return self._steps(plan, self._encoder.depth, True)

        def count(layers: tuple[int, ...], head: int) -> Numbers:
            return self._steps(replace(plan, layers=layers, head=head, because=""), head, plan.lowest <= 1)

        if not plan.layers or plan.head == max(1, plan.lowest):
            return count(plan.layers and (1,), 1)
        between = range(max(1, plan.lowest) + 1, plan.head)
        tuned = len(set(plan.layers) & set(between))
        frozen = len(between) - tuned
        total = count((1, 2), 2) if plan.head in plan.layers else count((1,), 2)
        if tuned:
            total = total + tuned * (count((1, 2, 3), 3) - count((1, 2), 2))
        if frozen:
            total = total + frozen * (count((1,), 3) - count((1,), 2))
        return total

    def _one_layer(self) -> Numbers:
        """Return coefficients (terms,): bytes that a layer saves, below one of which a head may read one token."""
        depth = min(2, self._encoder.depth)
        both = self._steps(Plan.span(1, depth, depth), depth, True)[:, 2]
        return both if depth == 1 else both - self._steps(Plan.span(2, 2, 2), 2, True)[:, 2]

    def _steps(self, plan: Plan, depth: int, from_bottom: bool) -> Numbers:
        return self._counted(f"{plan.identity()} {depth} {from_bottom}", plan, depth, from_bottom, _count_step)

    def _passes(self, like: Plan | None = None) -> Numbers:
        """Return coefficients (terms, 4): inference operations of embeddings, lowest layer, another layer, head.

        Args:
            like: a plan whose method is applied to all layers; None for the plain encoder.
        """
        depth = min(2, self._encoder.depth)
        plan = Plan(layers=(), head=depth)
        if like is not None:
            plan = replace(Plan.span(1, depth, depth), method=like.method, options=like.options)
        return self._counted(f"pass of {plan.identity()}", plan, depth, True, _count_pass)

    def _counted(self, key: str, plan: Plan, depth: int, from_bottom: bool, count: Count) -> Numbers:
        if key not in self._counts:
            self._counts[key] = _solve(self._make(self._part(depth, from_bottom), plan), count)
        return self._counts[key]

    def _cut(self, depth: int, from_bottom: bool) -> Encoder:
        """Return the lowest layers, or those above the first, which may compute more than the others."""
        return truncate(self._encoder if from_bottom else skip(self._encoder, 1, 1), depth)


def _amount(coefficients: Numbers) -> Amount:
    return Amount(coefficients=tuple(coefficients.tolist()))


def _solve(tunable: Tunable, count: Count) -> Numbers:
    """Return coefficients (terms, columns) from counts on the five shapes."""
    model = tunable.to_empty(device="cpu")
    is_packed = model.encoder.family.can_pack
    shapes = [shape_of(np.full(texts, length), is_packed=is_packed).terms() for texts, length in _COUNTED]
    with sdpa_kernel(SDPBackend.MATH):  # torch counts no FLOPs of the others
        counted = [count(model, texts, length) for texts, length in _COUNTED]
    return np.asarray(np.linalg.solve(np.array(shapes), np.array(counted)).round(3))


def _count_step(tunable: Tunable, texts: int, length: int) -> list[float]:
    """Return forward and backward operations and saved bytes of a training step."""
    at = frozen_at(tunable)
    is_single = at is not None and at.reads.is_single
    layout = Layout(np.full(texts, 1 if is_single else length, dtype=np.int64))
    tunable.train()
    with _saved_bytes(tunable) as saved:
        embedding, start = _counted(lambda: _start(tunable, layout))
        forward, logits = _counted(lambda: tunable.logits(start, layout, noise=Noise(0, 0)))
    backward, _ = _counted(lambda: logits.sum().backward())
    tunable.zero_grad()
    return [forward + (embedding if tunable.plan.embeddings else 0), backward, float(sum(saved.values()))]


def _start(tunable: Tunable, layout: Layout) -> Tensor:
    if tunable.plan.embeddings:
        return _embedded(tunable.encoder, layout)
    return torch.zeros(layout.tokens, tunable.encoder.width)


def _count_pass(tunable: Tunable, texts: int, length: int) -> list[float]:
    """Return inference operations: embeddings, lowest layer, another layer, head."""
    layout = Layout(np.full(texts, length, dtype=np.int64))
    encoder = tunable.encoder
    tunable.eval()
    with torch.no_grad():
        embed, states = _counted(lambda: _embedded(encoder, layout))
        lowest, states = _counted(lambda: encoder.run(states, layout, 1, 1))
        layer = lowest
        if encoder.depth > 1:
            layer, states = _counted(lambda: encoder.run(states, layout, 2, 2))
        padded = layout.pad(states)
        if tunable.head.kind == "multiple choice":
            padded = padded[:, None]
        head, _ = _counted(lambda: tunable.head(padded, None))
    return [embed, lowest, layer, head]


def _embedded(encoder: Encoder, layout: Layout) -> Tensor:
    ids = torch.zeros(layout.tokens, dtype=torch.long)
    return encoder.family.embed(encoder.model, ids, ids, ids)


def _counted(action: Callable[[], Any]) -> tuple[float, Any]:
    with _Counter() as counter:
        value = action()
    return float(counter.total), value


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the FLOPs that torch has formulas for; torch's own counter is many times slower."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=out)
        return out


@contextmanager
def _saved_bytes(tunable: Tunable) -> Iterator[dict[int, int]]:
    """Yield a dictionary that fills with the sizes of what autograd saves, each storage once, without weights."""
    weights = {value.untyped_storage()._cdata for value in tunable.parameters()}
    sizes: dict[int, int] = {}
    alive: list[Tensor] = []  # the address of a freed tensor would be used again

    def pack(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        if storage._cdata not in weights:
            sizes[storage._cdata] = storage.nbytes()
            alive.append(value)
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        yield sizes
