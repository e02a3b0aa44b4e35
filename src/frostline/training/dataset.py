"""The rows of one split for training: frozen states or tokens, labels, and which texts make up a question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import TOKENS_PER_BATCH, Tokens
from frostline.kernels.batch_layout import Ints, Layout, Reads
from frostline.kernels.dropout import Noise
from frostline.progress import Progress, Step, silent
from frostline.states.frozen import FrozenStates, JoinedStates, StatesAt
from frostline.tasks import Split
from frostline.training.model import Tunable


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Labelled rows that can be run in any batches.

    Args:
        tokens: the tokens of every text; each choice of a question is a text, next to the others.
        states: the frozen states that training starts from; None where the embeddings train, or where frozen layers
            run at every step.
        labels: (rows,), class numbers, the number of the right choice, or values.
        offsets: (rows + 1,), where each question's choices start among the texts; None unless multiple choice.
    """

    tokens: Tokens
    states: FrozenStates | JoinedStates | None
    labels: Tensor
    offsets: Ints | None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Ints) -> Examples:
        """Return some of the rows, in this order; frozen states are not copied."""
        texts = self.texts_of(rows)
        counts = None if self.offsets is None else self.offsets[rows + 1] - self.offsets[rows]
        return Examples(
            tokens=self.tokens.take(texts),
            states=None if self.states is None else self.states.take(texts),
            labels=self.labels[torch.as_tensor(rows)],
            offsets=None if counts is None else np.concatenate([[0], np.cumsum(counts)]),
        )

    def followed_by(self, others: Examples) -> Examples:
        """Return these rows and then others of the same task, with their own frozen states."""
        states = None
        if isinstance(self.states, FrozenStates) and isinstance(others.states, FrozenStates):
            states = JoinedStates(self.states, others.states)
        offsets = None
        if self.offsets is not None and others.offsets is not None:
            offsets = np.concatenate([self.offsets, self.offsets[-1] + others.offsets[1:]])
        return Examples(
            tokens=self.tokens.followed_by(others.tokens),
            states=states,
            labels=torch.cat([self.labels, others.labels]),
            offsets=offsets,
        )

    def texts_of(self, rows: Ints) -> Ints:
        """Return the numbers of the texts of these rows."""
        if self.offsets is None:
            return rows
        return np.concatenate([np.arange(self.offsets[row], self.offsets[row + 1]) for row in rows])

    def logits(self, tunable: Tunable, rows: Ints, *, noise: Noise | None = None, padded: bool = False) -> Tensor:
        """Return (rows, outputs); for multiple choice (rows, most choices), the lowest number where there is no choice.

        Several heads give (rows, outputs, heads).
        """
        texts = self.texts_of(rows)
        # Longest first, so that texts of one attention group are neighbours; the order of a batch does not matter.
        order = np.argsort(-self.tokens.lengths[texts], kind="stable")
        states, layout = self._start(tunable, texts[order], noise=noise, padded=padded)
        logits = tunable.logits(states, layout, noise=noise, padded=padded)
        logits = logits[torch.as_tensor(np.argsort(order), device=logits.device)]
        return logits if self.offsets is None else self._by_question(logits[:, 0], rows)

    def _start(self, tunable: Tunable, texts: Ints, *, noise: Noise | None, padded: bool) -> tuple[Tensor, Layout]:
        if self.states is not None:
            return self.states.rows(texts), Layout(self.states.lengths[texts], device=tunable.encoder.device)
        batch = self.tokens.take(texts)
        layout = tunable.encoder.layout(batch)
        return tunable.start(batch, layout, noise=noise, padded=padded), layout

    def _by_question(self, logits: Tensor, rows: Ints) -> Tensor:
        assert self.offsets is not None  # noqa: S101 (a question has choices)
        counts = torch.as_tensor(self.offsets[rows + 1] - self.offsets[rows], device=logits.device)
        is_choice = torch.arange(int(counts.max()), device=logits.device)[None, :] < counts[:, None]
        out = logits.new_full((*is_choice.shape, *logits.shape[1:]), torch.finfo(logits.dtype).min)
        return out.index_put(is_choice.nonzero(as_tuple=True), logits)

    def batches(self) -> Iterator[Ints]:
        """Yield all rows in batches of similar length, for inference."""
        if self.offsets is None:
            yield from self.tokens.batches(TOKENS_PER_BATCH)
            return
        longest = np.maximum.reduceat(self.tokens.lengths, self.offsets[:-1])
        most = int((self.offsets[1:] - self.offsets[:-1]).max())
        whole = Tokens(ids=self.tokens.ids, types=self.tokens.types, lengths=longest * most, truncated=0)
        yield from whole.batches(TOKENS_PER_BATCH)

    def outputs(self, tunable: Tunable, *, progress: Progress = silent) -> Tensor:
        """Return the model's outputs for every row, in order: (rows, outputs) on the CPU.

        Several heads give (rows, outputs, heads).
        """
        pieces, done = [], 0
        tunable.eval()
        with torch.no_grad():
            for rows in self.batches():
                pieces.append((torch.as_tensor(rows), self.logits(tunable, rows).float().cpu()))
                done += len(rows)
                progress(Step(stage="predicting", done=done, total=len(self)))
        most = max(piece.shape[1] for _, piece in pieces)
        out = torch.full((len(self), most, *pieces[0][1].shape[2:]), torch.finfo(torch.float32).min)
        for numbers, piece in pieces:
            out[numbers, : piece.shape[1]] = piece
        return out


def tokenize_split(encoder: Encoder, split: Split, *, max_length: int | None) -> tuple[Tokens, Ints | None]:
    """Return the tokens of a split's texts, and where each question's choices start."""
    rows = split.as_rows()
    tokens = encoder.tokenize(rows.texts, rows.pairs, max_length=max_length)
    if split.choices is None:
        return tokens, None
    return tokens, np.concatenate([[0], np.cumsum([len(choices) for choices in split.choices])]).astype(np.int64)


def frozen_at(tunable: Tunable) -> StatesAt | None:
    """Return which states training starts from; None where the embeddings train."""
    plan = tunable.plan
    if plan.lowest == 0:
        return None
    return StatesAt(layer=plan.lowest - 1, reads=Reads.ALL if plan.lowest <= plan.head else tunable.head.reads)
