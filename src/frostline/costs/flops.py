"""How much arithmetic and memory a training step takes, from the configuration alone.

The step itself runs, on a few tokens and two or three layers without pretrained weights, under a counter of
floating-point operations. So a new family or method needs no formula of its own. Any batch and any depth follow:
everything that a layer does grows with the tokens, with the squares of the texts' lengths, or not at all, and layers
are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from frostline.encoders.encoder import Encoder
from frostline.encoders.surgery import skip, truncate
from frostline.kernels.batch_layout import Ints, Layout, group_sizes
from frostline.kernels.dropout import Noise
from frostline.plans.methods import METHODS
from frostline.records import Plan
from frostline.training.dataset import frozen_at
from frostline.training.model import HeadChoice, Tunable, make_tunable

if TYPE_CHECKING:
    from frostline.encoders.families._family import Config
    from frostline.encoders.heads import HeadKind

# (texts, length) of the batches that are counted; five, as there are five terms.
_COUNTED = ((1, 2), (2, 2), (1, 4), (1, 8), (2, 4))
_COUNTED_WHOLE = 4  # encoders of so few layers are not taken apart

Numbers = np.ndarray[Any, np.dtype[np.float64]]

# What was counted in this process, by encoder and head, then by plan: a study asks for the same again and again.
_COUNTED_BEFORE: dict[str, dict[str, Numbers]] = {}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the work on batches of texts depends on; shapes of several batches add up."""

    batches: float
    texts: float
    tokens: float  # padding included where a family cannot do without
    squares: float  # of the lengths, padding within attention's groups included
    longest: float  # the sum over batches of the longest length

    def __add__(self, other: Shape) -> Shape:
        return Shape(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    def times(self, factor: float) -> Shape:
        """The shape of so many times as many batches."""
        return Shape(**{name: getattr(self, name) * factor for name in self.__dataclass_fields__})

    def terms(self) -> list[float]:
        """The numbers that a polynomial's coefficients go with."""
        return [getattr(self, name) for name in self.__dataclass_fields__]


def shape_of(lengths: Ints, *, is_packed: bool) -> Shape:
    """The shape of one batch of texts of these lengths.

    Args:
        lengths: tokens of each text.
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
    """A number that depends on a batch's shape."""

    coefficients: tuple[float, ...]

    def of(self, shape: Shape) -> float:
        """Its value for a shape, or for the sum of several."""
        return max(0.0, float(np.dot(self.coefficients, shape.terms())))


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a plan's passes take.

    Args:
        frozen: operations of computing the frozen states, once.
        forward: operations of a training step's forward pass, from the frozen states on.
        backward: operations of its backward pass.
        saved: bytes that the forward pass keeps for the backward pass.
        one_layer: bytes of that for one layer, about as many as a layer holds while it runs, either way.
        inference: operations of predicting, with the whole of what is kept.
    """

    frozen: Amount
    forward: Amount
    backward: Amount
    saved: Amount
    one_layer: Amount
    inference: Amount


def weightless_encoder(config: Config) -> Encoder:
    """An encoder of this configuration whose weights have shapes only."""
    from transformers import AutoModel

    with torch.device("meta"):
        return Encoder(AutoModel.from_config(config), name=str(config.model_type))


class Counter:
    """Counts the work of plans on one encoder, each kind of plan once."""

    def __init__(
        self, encoder: Encoder, *, outputs: int, kind: HeadKind = "classification", head: HeadChoice = "family"
    ) -> None:
        """Take down what plans are counted for.

        Args:
            encoder: weightless.
            outputs: of the head.
            kind: of task.
            head: the family's own, or a mean-pooled one.
        """
        self._encoder = encoder
        self._make = partial(make_tunable, outputs=outputs, kind=kind, head=head)
        self._part = cache(self._cut)
        same = f"{encoder.config.to_json_string(use_diff=False)} {outputs} {kind} {head}"
        self._known = _COUNTED_BEFORE.setdefault(same, {})

    def of(self, plan: Plan) -> Work:
        """The work of a plan."""
        training = self._training(plan)
        embed, lowest, layer, head = self._passes().T
        added = 0 * layer
        if not METHODS[plan.method].is_stock:  # what it adds is there when predicting, too
            added = len(plan.layers) * (self._passes(plan)[:, 2] - layer)

        def through(layers: int) -> Numbers:
            found: Numbers = embed + (lowest + (layers - 1) * layer if layers else 0)
            return found

        return Work(
            frozen=_amount(through(plan.lowest - 1) if plan.lowest else 0 * embed),
            forward=_amount(training[:, 0]),
            backward=_amount(training[:, 1]),
            saved=_amount(training[:, 2]),
            one_layer=_amount(self._one_layer()),
            inference=_amount(through(plan.head) + head + added),
        )

    def _training(self, plan: Plan) -> Numbers:
        """Coefficients (terms, 3): forward and backward operations and saved bytes of a step.

        A plan is made up of its lowest layer, those between, and the last one, of which a head may read one token.
        """
        if self._encoder.depth <= _COUNTED_WHOLE:
            return self._steps(plan, self._encoder.depth, True)
        count = partial(self._small, plan)
        if not plan.layers or plan.head == max(1, plan.lowest):
            return count(plan.layers and (1,), 1)
        between = range(max(1, plan.lowest) + 1, plan.head)
        tuned = len(set(plan.layers) & set(between))
        others = len(between) - tuned
        ends = count((1, 2), 2) if plan.head in plan.layers else count((1,), 2)
        if tuned:
            ends = ends + tuned * (count((1, 2, 3), 3) - count((1, 2), 2))
        if others:
            ends = ends + others * (count((1,), 3) - count((1,), 2))
        return ends

    def _small(self, plan: Plan, layers: tuple[int, ...], head: int) -> Numbers:
        """The same for a plan of the same kind on one to three layers."""
        return self._steps(replace(plan, layers=layers, head=head, because=""), head, plan.lowest <= 1)

    def _one_layer(self) -> Numbers:
        """Coefficients (terms,): bytes that a layer saves, below one of which a head may read one token."""
        depth = min(2, self._encoder.depth)
        both = self._steps(Plan.span(1, depth, depth), depth, True)[:, 2]
        return both if depth == 1 else both - self._steps(Plan.span(2, 2, 2), 2, True)[:, 2]

    def _steps(self, plan: Plan, depth: int, from_bottom: bool) -> Numbers:
        key = f"{plan.identity()} {depth} {from_bottom}"
        if key not in self._known:
            tunable = self._make(self._part(depth, from_bottom), plan)
            self._known[key] = _solved(tunable, _count_step)
        return self._known[key]

    def _passes(self, like: Plan | None = None) -> Numbers:
        """Coefficients (terms, 4): operations without training of embeddings, lowest layer, another layer, head.

        Args:
            like: a plan whose method all layers have; None for the encoder as it is.
        """
        depth = min(2, self._encoder.depth)
        plan = Plan(layers=(), head=depth)
        if like is not None:
            plan = replace(Plan.span(1, depth, depth), method=like.method, options=like.options)
        key = f"pass of {plan.identity()}"
        if key not in self._known:
            self._known[key] = _solved(self._make(self._part(depth, True), plan), _count_pass)
        return self._known[key]

    def _cut(self, depth: int, from_bottom: bool) -> Encoder:
        """The lowest layers, or those above the first: that one may have more to it than the others."""
        return truncate(self._encoder if from_bottom else skip(self._encoder, 1, 1), depth)


def _amount(coefficients: Numbers) -> Amount:
    return Amount(coefficients=tuple(coefficients.tolist()))


def _solved(tunable: Tunable, count: Callable[[Tunable, int, int], list[float]]) -> Numbers:
    """Coefficients (terms, columns) of what was counted for the five shapes."""
    model = tunable.to_empty(device="cpu")
    is_packed = model.encoder.family.can_pack
    shapes = [shape_of(np.full(texts, length), is_packed=is_packed).terms() for texts, length in _COUNTED]
    with sdpa_kernel(SDPBackend.MATH):  # the others count as nothing
        counted = [count(model, texts, length) for texts, length in _COUNTED]
    solved: Numbers = np.linalg.solve(np.array(shapes), np.array(counted)).round(3)
    return solved


def _count_step(tunable: Tunable, texts: int, length: int) -> list[float]:
    """Forward and backward operations and saved bytes of a training step."""
    plan = tunable.plan
    at = frozen_at(tunable)
    is_single = at is not None and at.reads.is_single
    layout = Layout(np.full(texts, 1 if is_single else length, dtype=np.int64))
    tunable.train()
    with _saved_bytes(tunable) as saved:
        embedding, start = _counted(lambda: _start(tunable, layout))
        forward, logits = _counted(lambda: tunable.logits(start, layout, noise=Noise(0, 0)))
    backward, _ = _counted(lambda: logits.sum().backward())
    tunable.zero_grad()
    return [forward + (embedding if plan.embeddings else 0), backward, float(sum(saved.values()))]


def _start(tunable: Tunable, layout: Layout) -> Tensor:
    if tunable.plan.embeddings:
        return _embedded(tunable.encoder, layout)
    return torch.zeros(layout.tokens, tunable.encoder.width)


def _count_pass(tunable: Tunable, texts: int, length: int) -> list[float]:
    """Operations without training: embeddings, lowest layer, another layer, head."""
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
        found = action()
    return float(counter.total), found


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the operations of everything that torch has a formula for; its own counter is many times slower."""

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
    """Fills a dictionary with the sizes of what autograd keeps, each piece of memory once, weights excepted."""
    weights = {value.untyped_storage()._cdata for value in tunable.parameters()}
    sizes: dict[int, int] = {}
    alive: list[Tensor] = []  # an address is used again once its tensor is gone

    def pack(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        if storage._cdata not in weights:
            sizes[storage._cdata] = storage.nbytes()
            alive.append(value)
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        yield sizes
