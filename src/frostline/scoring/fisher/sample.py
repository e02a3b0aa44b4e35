"""The examples and the heads of a Fisher score, and their gradients at the last layer."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import FamilyHead, HeadKind, logits_of, make_head
from frostline.errors import MeasureError, OptionError
from frostline.kernels.batch_layout import Layout
from frostline.scoring.fisher.label_weights import Label, answer_weights
from frostline.scoring.fisher.squared_gradients import LayerSquares, squared_gradients
from frostline.scoring.score_inputs import Evidence, numbered


class FisherSample:
    """The drawn examples and the heads."""

    def __init__(self, evidence: Evidence, *, label: Label, examples: int, heads: int, blocks: int) -> None:
        encoder, tokens = evidence.encoder, evidence.tokens
        if encoder is None or tokens is None:
            raise MeasureError("Fisher scores need the encoder and the tokens of the texts, not only their states")
        for name, value in (("examples", examples), ("heads", heads)):
            if value < 1:
                raise OptionError(f"{name} {value}: at least 1 is needed")
        is_choice = evidence.kind == "multiple choice"
        unit = torch.unique(evidence.groups, return_inverse=True)[1] if is_choice else torch.arange(len(evidence))
        source = torch.Generator().manual_seed(evidence.seed)
        drawn = torch.randperm(int(unit.max()) + 1, generator=source)[:examples]
        rows = torch.isin(unit, drawn).nonzero()[:, 0]
        taken = evidence.take(rows)
        self._encoder = encoder
        self._tokens = tokens.take(rows.tolist())
        self._kind = evidence.kind
        self._label = label
        self._example = torch.unique(unit[rows], return_inverse=True)[1]
        self._labels = taken.labels
        outputs = 1
        if evidence.kind == "classification":
            classes, codes = numbered(evidence.labels)
            outputs = len(classes)
            if outputs < 2:
                raise MeasureError("Fisher scores need rows of at least two classes, and all rows are of one")
            self._labels = codes[rows]
        self._heads = [
            fresh_head(encoder, evidence.kind, outputs, seed=evidence.seed * heads + number) for number in range(heads)
        ]
        self._draws = torch.rand(heads, len(self), generator=source, dtype=torch.float64)
        self._block = torch.empty(len(self), dtype=torch.long)  # of each example; fewer blocks if groups are few
        self._block[self._example] = taken.blocks(blocks)

    def __len__(self) -> int:
        return int(self._example.max()) + 1

    def sizes(self) -> Tensor:
        """Return (blocks,): the number of examples in each."""
        return torch.bincount(self._block)

    def squares(self) -> Iterator[LayerSquares]:
        """Yield the sums of squared gradients of layers L..1 in turn."""
        return squared_gradients(
            self._encoder,
            self._tokens,
            self._pull,
            examples=self._example.numpy(),
            blocks=self._block.numpy(),
        )

    def _pull(self, states: Tensor, layout: Layout, texts: Tensor) -> Tensor:
        """Return (heads, directions, tokens, width): gradients at the last layer that are to be squared."""
        return torch.stack(
            [
                self._pull_one(head, self._draws[number], states, layout, texts)
                for number, head in enumerate(self._heads)
            ]
        )

    def _pull_one(self, head: FamilyHead, draws: Tensor, states: Tensor, layout: Layout, texts: Tensor) -> Tensor:
        with torch.enable_grad():
            inputs = states.detach().requires_grad_()
            logits = logits_of(head, inputs, layout)
            example = self._example[texts]
            weights = answer_weights(
                logits.detach().cpu().double(),
                kind=self._kind,
                label=self._label,
                labels=self._labels[texts],
                example=torch.unique_consecutive(example, return_inverse=True)[1],
                draws=draws[torch.unique_consecutive(example)],
            )
            return torch.stack(
                [torch.autograd.grad(logits, inputs, weight.to(logits), retain_graph=True)[0] for weight in weights]
            )


def fresh_head(encoder: Encoder, kind: HeadKind, outputs: int, *, seed: int) -> FamilyHead:
    """Return a seeded head in eval mode; if a family has none for multiple choice, its classifier with one output."""
    if kind == "multiple choice" and not encoder.family.has_multiple_choice:
        kind = "classification"
    head = make_head(encoder, labels=outputs, kind=kind, seed=seed)
    parameter = next(iter(encoder.model.parameters()))
    return head.to(parameter.device, parameter.dtype).eval().requires_grad_(False)
