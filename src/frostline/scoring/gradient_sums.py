"""Gradients of a task's loss with respect to the parameters of all layers, added up by blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder, unroll
from frostline.encoders.tokens import TOKENS_PER_BATCH, Tokens
from frostline.kernels.batch_layout import Layout
from frostline.scoring.fisher.label_weights import answer_weights
from frostline.scoring.fisher.squared_gradients import example_batches, frozen
from frostline.tasks.task import Kind

# Returns (texts, outputs) from the last layer's output, before any final norm, its layout and the numbers of its rows.
Outputs = Callable[[Tensor, Layout, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class LabelledBlocks:
    """Rows with their labels, in blocks.

    Args:
        tokens: tokens of the rows.
        kind: kind of task.
        labels: (rows,), class numbers from 0, values, or 1 at the right choice.
        example: (rows,), the number from 0 of each row's example: its own, or that of its question.
        block: (rows,), the number from 0 of each row's block; an example lies in one block.
    """

    tokens: Tokens
    kind: Kind
    labels: Tensor
    example: Tensor
    block: Tensor

    def sizes(self) -> Tensor:
        """Return (blocks,): the number of examples in each."""
        return torch.bincount(torch.unique(torch.stack([self.block, self.example]), dim=1)[0])

    def batches(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of a block and the numbers of some of its rows, with whole examples."""
        for block in range(int(self.block.max()) + 1):
            rows = (self.block == block).nonzero()[:, 0]
            example = torch.unique(self.example[rows], return_inverse=True)[1].numpy()
            for texts in example_batches(self.tokens.take(rows.tolist()), example, TOKENS_PER_BATCH):
                yield block, rows[texts]

    def weights(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Return (rows, outputs): minus the derivatives of the summed loss with respect to the logits."""
        example, number = torch.unique_consecutive(self.example[rows], return_inverse=True)
        weights = answer_weights(
            logits.detach().cpu().double(),
            kind=self.kind,
            label="true",
            labels=self.labels[rows],
            example=number,
            draws=torch.zeros(len(example)),
        )
        return weights[0].to(logits)


def relative_gradient_norms(encoder: Encoder, examples: LabelledBlocks, outputs: Outputs, *, by_block: bool) -> Tensor:
    """Return (1 + blocks, layers 1..L): norms of gradients over norms of weights, averaged over a layer's tensors.

    First on all rows, then without each block in turn. The gradient is that of the mean loss of the examples: the
    cross-entropy of classes or choices, half the squared error of values. Tensors whose weights are all zero are left
    out. The encoder runs in eval mode and is not changed; layers that share parameters are treated as if each had its
    own.

    Args:
        encoder: the encoder.
        examples: the rows.
        outputs: function that applies the head.
        by_block: whether to leave out blocks; otherwise the result is (1, layers).
    """
    encoder = unroll(encoder) if encoder.shares_layers else encoder
    layers = [list(named.values()) for named in encoder.parts().layers]
    parameters = [parameter for layer in layers for parameter in layer]
    sizes = examples.sizes() if by_block else examples.sizes().sum()[None]
    sums = [parameter.new_zeros(len(sizes), parameter.numel()) for parameter in parameters]
    with frozen(encoder.model):
        for parameter in parameters:
            parameter.requires_grad_()
        for block, rows in examples.batches():
            batch = examples.tokens.take(rows.tolist())
            layout = encoder.layout(batch)
            with torch.enable_grad():
                states = encoder.run(encoder.embed(batch, layout), layout, 1, encoder.depth)
                logits = outputs(states, layout, rows)
            weights = examples.weights(logits, rows)
            gradients = torch.autograd.grad(logits, parameters, weights, materialize_grads=True)
            for into, gradient in zip(sums, gradients, strict=True):
                into[block if by_block else 0] += gradient.flatten()
        norms = {id(parameter): float(parameter.detach().double().norm()) for parameter in parameters}
    relative = {
        id(parameter): _norms(total, sizes) / norms[id(parameter)]
        for parameter, total in zip(parameters, sums, strict=True)
        if norms[id(parameter)]
    }
    return torch.stack(
        [torch.stack([relative[id(p)] for p in layer if id(p) in relative]).mean(0) for layer in layers], dim=1
    )


def _norms(sums: Tensor, sizes: Tensor) -> Tensor:
    """Return (1 + blocks,): the norm of the mean gradient on all examples, then without each block; (1,) for one block.

    Args:
        sums: (blocks, parameters), summed gradients.
        sizes: (blocks,), numbers of examples.
    """
    products = (sums.double() @ sums.double().T).cpu()
    whole, with_all = products.sum(), products.sum(1)
    if len(sizes) == 1:
        return whole.sqrt()[None] / sizes.sum()
    without = (whole - 2 * with_all + products.diagonal()).clamp(min=0)
    return torch.cat([whole.sqrt()[None] / sizes.sum(), without.sqrt() / (sizes.sum() - sizes)])
