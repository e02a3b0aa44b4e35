"""Squared gradients of every single example, computed in batches.

The gradient of a linear layer's weight for one example is a product over that example's tokens of the layer's input and
of the gradient of its output. So examples run in packed batches, and only those two small matrices per example are
multiplied, squared and added up, one weight after the other while it is in the processor's cache. Layers are processed
from the top down, each with its own short backward pass, so that only one layer's squares are in memory.

Where a parameter is used in any other way (DeBERTa's projections of relative positions, its bare biases, its
convolution), examples run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frostline.encoders.encoder import Encoder, unroll
from frostline.encoders.parameter_groups import count_of
from frostline.encoders.tokens import TOKENS_PER_BATCH, Tokens
from frostline.kernels.batch_layout import Ints, Layout
from frostline.scoring.fisher.spans import Spans

# Returns (heads, directions, tokens, width): the gradients at the last layer's output for the texts of a batch, from
# that output, its layout, and the numbers of the texts.
Pull = Callable[[Tensor, Layout, Tensor], Tensor]

_MOST_KEPT = 1 << 30  # bytes of intermediate results; with more, each layer is recomputed in the backward pass
_KEPT_PER_TOKEN = 20  # intermediate results of one layer, in widths


@dataclass(frozen=True, kw_only=True)
class LayerSquares:
    """Sums over examples and directions of the squared gradients of one layer's parameters.

    Args:
        layer: number of the layer, from 1.
        sums: (heads, blocks, parameters); overwritten by the next layer.
        shapes: shape of each parameter by name, in the order of `sums`.
    """

    layer: int
    sums: Tensor
    shapes: dict[str, torch.Size]

    def by_name(self) -> dict[str, Tensor]:
        """Return (heads, blocks, *shape) of each parameter, as views."""
        pieces = torch.split(self.sums, [shape.numel() for shape in self.shapes.values()], dim=2)
        return {
            name: piece.view(*piece.shape[:2], *shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }


def squared_gradients(
    encoder: Encoder,
    tokens: Tokens,
    pull: Pull,
    *,
    examples: Ints,
    blocks: Ints,
) -> Iterator[LayerSquares]:
    """Yield the sums of squared gradients of layers L..1 in turn; the encoder runs in eval mode and is not changed.

    Args:
        encoder: the encoder; layers that share parameters are treated as if each had its own.
        tokens: the tokens of the texts.
        pull: returns the gradients to propagate; squares are added up over directions and examples.
        examples: (texts,), the number from 0 of each text's example: its own, or that of its question.
        blocks: (examples,), the number from 0 of each example's block.
    """
    encoder = unroll(encoder) if encoder.shares_layers else encoder
    layers = encoder.parts().layers
    with frozen(encoder.model):
        by_batch = squares_form_in_batches(encoder, tokens)
        budget = TOKENS_PER_BATCH if by_batch else 0
        bytes_kept = 4 * tokens.lengths.sum() * encoder.width * encoder.depth * _KEPT_PER_TOKEN
        keeps = by_batch and bytes_kept <= _MOST_KEPT
        batches = [
            _Batch(encoder, tokens, texts, examples, blocks, pull, keeps=keeps)
            for texts in _batches(tokens, examples, budget)
        ]
        pulled = batches[0].pulled
        held = pulled.new_empty(len(pulled), int(blocks.max()) + 1, max(count_of(named) for named in layers))
        for number in range(encoder.depth, 0, -1):
            named = layers[number - 1]
            squares = LayerSquares(
                layer=number,
                sums=held[:, :, : count_of(named)].zero_(),
                shapes={name: parameter.shape for name, parameter in named.items()},
            )
            into = {id(named[name]): sums for name, sums in squares.by_name().items()}
            for batch in batches:
                batch.descend(number, list(named.values()), into, by_batch=by_batch)
            yield squares


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Set eval mode and turn gradients off; restore both afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    trainable = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        model.eval()
        model.requires_grad_(False)
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, requires_grad in trainable:
            parameter.requires_grad_(requires_grad)


def _batches(tokens: Tokens, examples: Ints, budget: int) -> list[Ints]:
    """Return texts in batches of whole examples of similar length, longest first; one example each if budget is 0."""
    members: list[list[int]] = [[] for _ in range(int(examples.max()) + 1)]
    for text, example in enumerate(examples):
        members[example].append(text)
    longest = np.array([tokens.lengths[texts].max() for texts in members])
    batches: list[list[int]] = []
    room = 0
    for example in np.argsort(-longest, kind="stable"):
        texts = members[example]
        if not batches or room < len(texts):
            batches.append([])
            room = budget // int(longest[example])
        batches[-1] += texts
        room -= len(texts)
    return [np.array(texts) for texts in batches]


# One layer of one batch --------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class _Call:
    """One call of a module."""

    module: nn.Module
    input: Tensor
    output: Tensor


@dataclass(kw_only=True)
class _Piece:
    """One layer's computation for a batch, ready for its backward pass."""

    input: Tensor
    output: Tensor
    calls: list[_Call] = field(default_factory=list)


def _compute(encoder: Encoder, number: int, states: Tensor, layout: Layout) -> _Piece:
    """Run a layer on states and record the calls of all modules that have parameters."""
    calls: list[_Call] = []

    def remember(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append(_Call(module=module, input=inputs[0].detach(), output=output))

    layer = encoder.family.layers(encoder.model)[number - 1]
    owners = [layer, *encoder.family.attached(encoder.model, encoder.order[number - 1])]
    handles = [
        module.register_forward_hook(remember)
        for owner in owners
        for module in owner.modules()
        if isinstance(module, nn.Linear | nn.LayerNorm) and _own_parameters(module)
    ]
    try:
        with torch.enable_grad():
            states = states.detach().requires_grad_()
            output = encoder.run(states, layout, number, number)
    finally:
        for handle in handles:
            handle.remove()
    return _Piece(input=states, output=output, calls=calls)


def _own_parameters(module: nn.Module) -> list[nn.Parameter]:
    return list(module.parameters(recurse=False))


def squares_form_in_batches(encoder: Encoder, tokens: Tokens) -> bool:
    """Whether every parameter of the layers is used once, on tokens, by a linear layer or a norm.

    Determined by running a batch of the shortest text twice: a call with another shape belongs to no single text.
    """
    shortest = int(tokens.lengths.argmin())
    pair = tokens.take([shortest, shortest])
    layout = encoder.layout(pair)
    states = encoder.embed(pair, layout)
    shapes = (states.shape[:1], (2, int(pair.lengths[0])))
    for number, named in enumerate(encoder.parts().layers, start=1):
        calls = _compute(encoder, number, states, layout).calls
        used = [id(parameter) for call in calls for parameter in _own_parameters(call.module)]
        if sorted(used) != sorted(id(parameter) for parameter in named.values()):
            return False
        if any(call.input.shape[:-1] not in shapes for call in calls):
            return False
    return True


class _Batch:
    """Texts that run together, with the gradients at the current layer."""

    def __init__(
        self, encoder: Encoder, tokens: Tokens, texts: Ints, examples: Ints, blocks: Ints, pull: Pull, *, keeps: bool
    ) -> None:
        """Run all layers forward, and compute the gradients at the last one."""
        batch = tokens.take(texts)
        layout = encoder.layout(batch)
        self._encoder, self._layout = encoder, layout
        self._spans = Spans(batch.lengths, examples[texts], blocks, device=encoder.device)
        self._states: list[Tensor] = []
        self._pieces: list[_Piece] = []
        with torch.no_grad():
            states = encoder.embed(batch, layout)
            for number in range(1, encoder.depth + 1):
                if keeps:
                    self._pieces.append(_compute(encoder, number, states, layout))
                    states = self._pieces[-1].output.detach()
                else:
                    self._states.append(states)
                    states = encoder.run(states, layout, number, number)
        self.pulled = pull(states, layout, torch.as_tensor(texts))

    def descend(
        self, number: int, parameters: Sequence[nn.Parameter], into: dict[int, Tensor], *, by_batch: bool
    ) -> None:
        """Propagate every direction back through a layer, adding the squares of its parameters' gradients.

        Unless `by_batch`, the batch is a single example, and the gradients of the parameters themselves are squared.
        """
        for parameter in parameters:
            parameter.requires_grad_(not by_batch)
        piece = (
            self._pieces.pop() if self._pieces else _compute(self._encoder, number, self._states.pop(), self._layout)
        )
        targets = [call.output for call in piece.calls] if by_batch else parameters
        for head, pulled in enumerate(self.pulled):
            for direction in pulled:
                below, *gradients = torch.autograd.grad(
                    piece.output, [piece.input, *targets], direction, retain_graph=True, materialize_grads=True
                )
                if by_batch:
                    for call, gradient in zip(piece.calls, gradients, strict=True):
                        self._add_call(call, gradient, into, head)
                else:
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        into[id(parameter)][head, self._spans.blocks[0]].addcmul_(gradient, gradient)
                direction.copy_(below)  # last: a gradient may be the direction itself
        for parameter in parameters:
            parameter.requires_grad_(False)

    def _add_call(self, call: _Call, gradient: Tensor, into: dict[int, Tensor], head: int) -> None:
        """Add the squares of each example's gradients of a module's parameters, from those of its output."""
        inputs = call.input
        if inputs.dim() == 3:
            inputs, gradient = self._layout.unpad(inputs), self._layout.unpad(gradient)
        sums = {name: into[id(parameter)][head] for name, parameter in call.module.named_parameters(recurse=False)}
        if isinstance(call.module, nn.LayerNorm):
            inputs = F.layer_norm(inputs, call.module.normalized_shape, eps=call.module.eps)
            self._spans.add_squared_sums(sums["weight"], gradient * inputs)
        else:
            self._spans.add_squared_products(sums["weight"], gradient, inputs)
        if "bias" in sums:
            self._spans.add_squared_sums(sums["bias"], gradient)
