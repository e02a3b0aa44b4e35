"""Inner products of the gradients of single texts, for the parameters of each layer.

The gradient of a linear layer's weight for one text is a sum over its tokens of outer products of the gradient of the
layer's output and its input. So texts run in batches, both sides are projected by fixed random matrices, and only their
small product is kept for each text: inner products keep their expectation, at a thousandth of the cost of exact ones.
Biases, norms and embedding tables are exact, as is a side that is no wider than the projection.

Where a parameter is used in any other way (DeBERTa's projections of relative positions, MPNet's attention bias), texts
run one by one, and the gradient of the parameter itself is projected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frostline.encoders.encoder import Encoder, unroll
from frostline.encoders.heads import FamilyHead, MeanHead, logits_of
from frostline.encoders.tokens import TOKENS_PER_BATCH, Tokens
from frostline.kernels.batch_layout import Ints, Layout
from frostline.scoring.fisher.squared_gradients import frozen

_TOKENS_WITH_GRADIENTS = 2048  # per batch: all layers' intermediate results are in memory


class HeadedEncoder:
    """An encoder and a head at its last layer, up to the features that the head's last linear layer reads."""

    def __init__(self, encoder: Encoder, head: FamilyHead | MeanHead) -> None:
        self.encoder = unroll(encoder) if encoder.shares_layers else encoder
        self.head = head
        self._last = [module for module in head.modules() if isinstance(module, nn.Linear)][-1]

    def parts(self) -> list[list[nn.Parameter]]:
        """Return the parameters of the embeddings, of layers 1..L, and of the head below its last linear layer."""
        parts = self.encoder.parts()
        own = {id(parameter) for parameter in self._last.parameters()}
        head = [parameter for parameter in self.head.parameters() if id(parameter) not in own]
        return [*(list(named.values()) for named in (parts.embeddings, *parts.layers)), head]

    def modules(self) -> list[nn.Module]:
        """Return all modules, the encoder's first."""
        return [*self.encoder.model.modules(), *self.head.modules()]

    def features(self, tokens: Tokens) -> Tensor:
        """Return (texts, features) of all texts, without gradients."""
        batches = tokens.batches(TOKENS_PER_BATCH)
        with frozen(self.encoder.model), torch.no_grad():
            features = torch.cat([self.read(tokens.take(texts))[0] for texts in batches])
        return features[torch.as_tensor(np.concatenate(batches)).argsort()]

    def read(self, tokens: Tokens) -> tuple[Tensor, Layout]:
        """Return (texts, features) of one batch, and its layout."""
        layout = self.encoder.layout(tokens)
        states = self.encoder.embed(tokens, layout)
        states = self.encoder.run(states, layout, 1, self.encoder.depth)
        entered: list[Tensor] = []
        handle = self._last.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
        try:
            logits_of(self.head, states, layout)
        finally:
            handle.remove()
        return entered[0].reshape(len(tokens), -1), layout


def gradient_kernels(
    network: HeadedEncoder, tokens: Tokens, directions: Tensor, *, rank: int | None, seed: int
) -> Tensor:
    """Return (parts, texts, texts): inner products of the texts' gradients, added up over directions.

    Args:
        network: the encoder, which is not changed, and the head.
        tokens: the tokens of the texts.
        directions: (directions, features); each is a linear function of the features, which is differentiated.
        rank: width of the random projections; None for exact products.
        seed: seed of the projections.
    """
    with frozen(network.encoder.model):
        parts = network.parts()
        modules, others = _split(network, parts, tokens)
        for parameter in others:
            parameter.requires_grad_()
        part_of = {id(parameter): number for number, part in enumerate(parts) for parameter in part}
        projections = _Projections([parameter for part in parts for parameter in part], rank=rank, seed=seed)
        batches = [np.array([text]) for text in range(len(tokens))] if others else _batches(tokens)
        kernels = torch.zeros(len(parts), len(tokens), len(tokens), dtype=torch.float64)
        for direction in directions:
            gradients = _Gradients(part_of, projections)
            for texts in batches:
                with torch.enable_grad(), _recorded(modules) as calls:
                    features, layout = network.read(tokens.take(texts))
                outputs = (features @ direction.to(features)).sum()
                targets = [*(call.output for call in calls), *others]
                computed = torch.autograd.grad(outputs, targets, materialize_grads=True)
                gradients.add_batch(texts, layout, calls, others, computed)
            gradients.add_to(kernels)
        for parameter in others:
            parameter.requires_grad_(False)
    return kernels


def _batches(tokens: Tokens) -> list[Ints]:
    return tokens.batches(_TOKENS_WITH_GRADIENTS)


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One call of a module."""

    module: nn.Module
    input: Tensor
    output: Tensor


@contextmanager
def _recorded(modules: Sequence[nn.Module]) -> Iterator[list[_Call]]:
    """Record the calls of modules; the output of an embedding table becomes the start of the graph."""
    calls: list[_Call] = []

    def remember(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        calls.append(_Call(module=module, input=inputs[0].detach(), output=output))
        # A copy, because the stock code may add to it in place.
        return output.requires_grad_().clone() if isinstance(module, nn.Embedding) else None

    handles = [module.register_forward_hook(remember) for module in modules]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _split(
    network: HeadedEncoder, parts: Sequence[Sequence[nn.Parameter]], tokens: Tokens
) -> tuple[list[nn.Module], list[nn.Parameter]]:
    """Return the modules that are called once, on tokens or texts, and the parameters that are in no such module.

    Determined by running the shortest text alone and twice in a batch: a call whose shape does not follow belongs to no
    single text.
    """
    known = {id(parameter) for part in parts for parameter in part}
    modules: list[nn.Module] = [
        module
        for module in network.modules()
        if isinstance(module, nn.Linear | nn.LayerNorm | nn.Embedding)
        and any(id(parameter) in known for parameter in module.parameters(recurse=False))
    ]
    shortest = int(tokens.lengths.argmin())
    for copies in (1, 2):
        with torch.enable_grad(), _recorded(modules) as calls:
            _, layout = network.read(tokens.take([shortest] * copies))
        called = [call.module for call in calls]
        is_plain = {id(call.module): _by_text(call.output, layout) is not None for call in calls}
        modules = [module for module in modules if called.count(module) == 1 and is_plain[id(module)]]
    covered = {id(parameter) for module in modules for parameter in module.parameters(recurse=False)}
    return modules, [parameter for part in parts for parameter in part if id(parameter) not in covered]


def _by_text(values: Tensor, layout: Layout) -> Tensor | None:
    """Return (texts, tokens, width) of a call's inputs, or of gradients of its outputs; None if they are of no text."""
    shape, flat = values.shape[:-1], values.reshape(-1, values.shape[-1])
    if shape in ((layout.tokens,), (1, layout.tokens)):
        return layout.pad(flat)
    if shape in ((len(layout),), (len(layout), 1)):
        return flat[:, None]
    return values if shape == layout.padded.mask.shape else None


def _sums(values: Tensor, layout: Layout) -> Tensor:
    """Return (texts, width): the sums over each text's tokens."""
    if values.shape[:-1] == (layout.tokens,):
        text = torch.arange(len(layout), device=values.device).repeat_interleave(layout.lengths)
        return values.new_zeros(len(layout), values.shape[-1]).index_add_(0, text, values)
    padded = _by_text(values, layout)
    assert padded is not None  # noqa: S101 (see `_split`)
    return padded.sum(1)


class _Projections:
    """Random matrices for the two sides of each weight; None where a side is exact."""

    def __init__(self, parameters: Sequence[nn.Parameter], *, rank: int | None, seed: int) -> None:
        source = torch.Generator().manual_seed(seed)

        def side(size: int, like: Tensor) -> Tensor | None:
            if rank is None or size <= rank:
                return None
            drawn = torch.randn(size, rank, generator=source, dtype=torch.float64).to(like)
            return drawn / math.sqrt(rank)

        self._sides = {
            id(weight): (side(len(weight), weight), side(weight[0].numel(), weight))
            for weight in parameters
            if weight.dim() > 1
        }

    def product(self, weight: Tensor, above: Tensor, inputs: Tensor, layout: Layout) -> Tensor:
        """Return (texts, k): each text's projected gradient from those of a linear layer's outputs and its inputs."""
        sides = zip((above, inputs), self._sides[id(weight)], strict=True)
        left, right = (_by_text(side if matrix is None else side @ matrix, layout) for side, matrix in sides)
        assert left is not None and right is not None  # noqa: S101 (see `_split`)
        product: Tensor = left.mT @ right
        return product.flatten(1)

    def whole(self, parameter: nn.Parameter, gradient: Tensor) -> Tensor:
        """Return (1, k): one text's projected gradient from that of the parameter."""
        if gradient.dim() == 1:
            return gradient[None]
        for_left, for_right = self._sides[id(parameter)]
        matrix = gradient.flatten(1)
        matrix = matrix if for_left is None else for_left.T @ matrix
        matrix = matrix if for_right is None else matrix @ for_right
        return matrix.reshape(1, -1)


class _Gradients:
    """The projected gradients of all texts for one direction."""

    def __init__(self, part_of: dict[int, int], projections: _Projections) -> None:
        self._part_of, self._projections = part_of, projections
        self._rows: list[Tensor] = []
        self._dense: dict[int, list[Tensor]] = {}  # by part: (texts, k) of each batch
        self._tables: dict[nn.Embedding, list[tuple[Tensor, Tensor, Tensor]]] = {}

    def add_batch(
        self,
        texts: Ints,
        layout: Layout,
        calls: Sequence[_Call],
        others: Sequence[nn.Parameter],
        computed: Sequence[Tensor],
    ) -> None:
        """Add the gradients of a batch: those of calls' outputs, then those of other parameters."""
        rows = torch.as_tensor(texts)
        pieces: dict[int, list[Tensor]] = {}
        for call, gradient in zip(calls, computed[: len(calls)], strict=True):
            if isinstance(call.module, nn.Embedding):
                ids = call.input.flatten()
                used = gradient.reshape(len(ids), -1).masked_fill((ids == _padding(call.module))[:, None], 0)
                self._tables.setdefault(call.module, []).append((ids, rows.repeat_interleave(layout.lengths), used))
            else:
                part = self._part_of[id(call.module.weight)]
                pieces.setdefault(part, []).extend(self._of_call(call, gradient, layout))
        for parameter, gradient in zip(others, computed[len(calls) :], strict=True):
            part = self._part_of[id(parameter)]
            pieces.setdefault(part, []).append(self._projections.whole(parameter, gradient))
        for part, of_part in pieces.items():
            self._dense.setdefault(part, []).append(torch.cat(of_part, 1))
        self._rows.append(rows)

    def _of_call(self, call: _Call, gradient: Tensor, layout: Layout) -> Iterator[Tensor]:
        """Yield (texts, k) for each parameter of a linear layer or a norm."""
        module = call.module
        if isinstance(module, nn.LayerNorm):
            normal = F.layer_norm(call.input, module.normalized_shape, eps=module.eps)
            yield _sums(gradient * normal, layout)
        elif isinstance(module, nn.Linear):
            yield self._projections.product(module.weight, gradient, call.input, layout)
        if module.bias is not None:
            yield _sums(gradient, layout)

    def add_to(self, kernels: Tensor) -> None:
        """Add the inner products to (parts, texts, texts)."""
        order = torch.cat(self._rows).argsort()
        for part, batches in self._dense.items():
            dense = torch.cat(batches)[order]
            kernels[part] += (dense @ dense.T).double().cpu()
        for table, read in self._tables.items():
            ids, rows, gradients = (torch.cat(columns) for columns in zip(*read, strict=True))
            kernels[self._part_of[id(table.weight)]] += _table_kernel(ids, rows, gradients, len(order)).double().cpu()


def _padding(table: nn.Embedding) -> int:
    """Return the row of the table that has no gradient; -1 if all have one."""
    return -1 if table.padding_idx is None else table.padding_idx


def _table_kernel(ids: Tensor, rows: Tensor, gradients: Tensor, texts: int) -> Tensor:
    """Return (texts, texts): inner products of the gradients of an embedding table, from those of its outputs.

    Only texts that have a token in common have one; tokens are taken one after the other.

    Args:
        ids: (tokens,), the row of the table that each token reads.
        rows: (tokens,), the text of each token.
        gradients: (tokens, width).
        texts: number of texts.
    """
    pairs, pair = torch.unique(ids * texts + rows, return_inverse=True)  # sorted by id
    sums = gradients.new_zeros(len(pairs), gradients.shape[1]).index_add_(0, pair, gradients)
    counts = torch.unique_consecutive(pairs // texts, return_counts=True)[1]
    kernel = gradients.new_zeros(texts, texts)
    sizes = counts.tolist()
    for readers, block in zip(torch.split(pairs % texts, sizes), torch.split(sums, sizes), strict=True):
        kernel[readers[:, None], readers] += block @ block.T
    return kernel
