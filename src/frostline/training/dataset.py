"""The rows of one split as training sees them: frozen states or tokens, labels, and which texts make up a question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens
from frostline.kernels.batch_layout import Ints, Layout, Reads
from frostline.kernels.dropout import Noise
from frostline.progress import Progress, Step, silent
from frostline.states.frozen import FrozenStates, StatesAt
from frostline.tasks import Split
from frostline.training.model import Tunable

_TOKENS_PER_BATCH = 4096  # where there is no training


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Labelled rows, ready to be run in any batches.

    Args:
        tokens: of every text; the choices of a question are texts of their own, side by side.
        states: of every text where training starts; None where the embeddings train.
        labels: (rows,), class numbers, the number of the right choice, or values.
        offsets: (rows + 1,), where each question's choices start among the texts; None unless multiple choice.
    """

    tokens: Tokens
    states: FrozenStates | None
    labels: Tensor
    offsets: Ints | None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Ints) -> Examples:
        """Some of the rows, in this order; frozen states stay where they are."""
        texts = self.texts_of(rows)
        counts = None if self.offsets is None else self.offsets[rows + 1] - self.offsets[rows]
        return Examples(
            tokens=self.tokens.take(texts),
            states=None if self.states is None else self.states.take(texts),
            labels=self.labels[torch.as_tensor(rows)],
            offsets=None if counts is None else np.concatenate([[0], np.cumsum(counts)]),
        )

    def texts_of(self, rows: Ints) -> Ints:
        """Which texts these rows consist of."""
        if self.offsets is None:
            return rows
        return np.concatenate([np.arange(self.offsets[row], self.offsets[row + 1]) for row in rows])

    def logits(self, tunable: Tunable, rows: Ints, *, noise: Noise | None = None, padded: bool = False) -> Tensor:
        """(rows, outputs); for multiple choice (rows, most choices), the lowest number where there is no choice.

        Of several heads (rows, outputs, heads).
        """
        texts = self.texts_of(rows)
        # Longest first: texts of one attention group then lie side by side. A batch has no order of its own.
        order = np.argsort(-self.tokens.lengths[texts], kind="stable")
        states, layout = self._start(tunable, texts[order])
        found = tunable.logits(states, layout, noise=noise, padded=padded)
        found = found[torch.as_tensor(np.argsort(order), device=found.device)]
        return found if self.offsets is None else self._by_question(found[:, 0], rows)

    def _start(self, tunable: Tunable, texts: Ints) -> tuple[Tensor, Layout]:
        if self.states is not None:
            layout = Layout(self.states.lengths[texts], device=tunable.encoder.device)
            return self.states.rows(texts), layout
        batch = self.tokens.take(texts)
        layout = tunable.encoder.layout(batch)
        return tunable.start(batch, layout), layout

    def _by_question(self, found: Tensor, rows: Ints) -> Tensor:
        assert self.offsets is not None  # noqa: S101 (a question has choices)
        counts = torch.as_tensor(self.offsets[rows + 1] - self.offsets[rows], device=found.device)
        place = torch.arange(int(counts.max()), device=found.device)[None, :] < counts[:, None]
        out = found.new_full((*place.shape, *found.shape[1:]), torch.finfo(found.dtype).min)
        return out.index_put(place.nonzero(as_tuple=True), found)

    def batches(self) -> Iterator[Ints]:
        """All rows in batches of similar length, for running without training."""
        if self.offsets is None:
            yield from self.tokens.batches(_TOKENS_PER_BATCH)
            return
        longest = np.maximum.reduceat(self.tokens.lengths, self.offsets[:-1])
        most = int((self.offsets[1:] - self.offsets[:-1]).max())
        whole = Tokens(ids=self.tokens.ids, types=self.tokens.types, lengths=longest * most, truncated=0)
        yield from whole.batches(_TOKENS_PER_BATCH)

    def outputs(self, tunable: Tunable, *, progress: Progress = silent) -> Tensor:
        """What the model says of every row, in order, without training: (rows, outputs) on the CPU.

        Of several heads (rows, outputs, heads).
        """
        pieces, places, done = [], [], 0
        tunable.eval()
        with torch.no_grad():
            for rows in self.batches():
                pieces.append(self.logits(tunable, rows).float().cpu())
                places.append(rows)
                done += len(rows)
                progress(Step(stage="predicting", done=done, total=len(self)))
        most = max(piece.shape[1] for piece in pieces)
        out = torch.full((len(self), most, *pieces[0].shape[2:]), torch.finfo(torch.float32).min)
        for rows, piece in zip(places, pieces, strict=True):
            out[torch.as_tensor(rows), : piece.shape[1]] = piece
        return out


def tokenize_split(encoder: Encoder, split: Split, *, max_length: int | None) -> tuple[Tokens, Ints | None]:
    """The tokens of a split's texts, and where each question's choices start."""
    rows = split.as_rows()
    tokens = encoder.tokenize(rows.texts, rows.pairs, max_length=max_length)
    if split.choices is None:
        return tokens, None
    return tokens, np.concatenate([[0], np.cumsum([len(choices) for choices in split.choices])]).astype(np.int64)


def frozen_at(tunable: Tunable) -> StatesAt | None:
    """The states that training starts from; None where the embeddings train."""
    plan = tunable.plan
    if plan.lowest == 0:
        return None
    return StatesAt(layer=plan.lowest - 1, reads=Reads.ALL if plan.lowest <= plan.head else tunable.head.reads)
