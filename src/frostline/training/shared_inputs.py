"""Inputs that trials on one encoder and one task share: tokens and frozen states, computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import torch

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens
from frostline.kernels.batch_layout import Ints
from frostline.progress import Progress, detailed, silent
from frostline.records import Recipe
from frostline.states.cache import open_together
from frostline.states.frozen import DType, FrozenStates, StatesAt
from frostline.tasks import Task
from frostline.tasks.splits import row_ranks, strata_of
from frostline.training.dataset import Examples, frozen_at, tokenize_split
from frostline.training.model import Tunable


class SharedInputs:
    """An encoder and a task with their tokens and frozen states, for any number of plans."""

    def __init__(
        self,
        encoder: Encoder,
        task: Task,
        *,
        max_length: int | None = None,
        dtype: DType = "float16",
        keep: bool = True,
        progress: Progress = silent,
    ) -> None:
        """Prepare the inputs; nothing is computed before it is needed.

        Args:
            encoder: the pretrained encoder; never changed.
            task: the task, with its splits.
            max_length: number of tokens at which texts are cut.
            dtype: number format of cached frozen states.
            keep: cache frozen states on disk.
            progress: progress callback.
        """
        self.encoder, self.task = encoder, task
        self.max_length, self.dtype, self.keep = max_length, dtype, keep
        self.notes: list[str] = []  # sentences on texts and states that a user should know
        self._progress = progress
        self._tokens: dict[str, tuple[Tokens, Ints | None]] = {}
        self._states: dict[tuple[str, StatesAt], FrozenStates] = {}

    @classmethod
    def for_recipe(
        cls, encoder: Encoder, task: Task, recipe: Recipe, *, keep: bool = True, progress: Progress = silent
    ) -> SharedInputs:
        """Return the shared inputs of trials with the length limit and the cache format of a recipe."""
        return cls(encoder, task, max_length=recipe.max_length, dtype=recipe.cache_dtype, keep=keep, progress=progress)

    def tokens(self, split: str) -> tuple[Tokens, Ints | None]:
        """Return the tokens of a split's texts, and where each question's choices start."""
        if split not in self._tokens:
            tokens, offsets = tokenize_split(self.encoder, self.task.splits[split], max_length=self.max_length)
            self._tokens[split] = tokens, offsets
            if tokens.truncated:
                self._note(f"{tokens.truncated:,} {split} texts were longer than the limit and cut")
        return self._tokens[split]

    def freeze(self, layers: Iterable[StatesAt], splits: Iterable[str]) -> None:
        """Read or build the states at several layers, for each split in one pass."""
        distinct = list(dict.fromkeys(layers))
        for split in splits:
            missing = [at for at in distinct if (split, at) not in self._states]
            if not missing:
                continue
            opened, notes = open_together(
                self.encoder,
                self.tokens(split)[0],
                missing,
                dtype=self.dtype,
                keep=self.keep,
                progress=detailed(self._progress, split),
            )
            self._states |= {(split, at): states for at, states in zip(missing, opened, strict=True)}
            for note in notes:
                self._note(note)

    def examples(self, tunable: Tunable, split: str) -> Examples:
        """Return the rows of a split for a plan."""
        tokens, offsets = self.tokens(split)
        # With dropout below the lowest tuned layer, the states of training rows differ from step to step.
        at = None if tunable.lower_dropout and split == "train" else frozen_at(tunable)
        if at is not None:
            self.freeze([at], [split])
        labels = torch.tensor(self.task.splits[split].labels)
        states = None if at is None else self._states[split, at]
        return Examples(tokens=tokens, states=states, labels=labels, offsets=offsets)

    def some_rows(self, count: int, *, seed: int, of: str = "train") -> Ints:
        """Return `count` rows of a split, every class in proportion; larger counts include the rows of smaller ones."""
        split = self.task.splits[of]
        ranks = row_ranks(split, f"rows {seed}", tell_copies_apart=True)
        strata = strata_of(split)
        sizes, seen = Counter(strata), Counter[int]()
        quantiles: list[tuple[float, bytes, int]] = []  # of each row in its stratum, then its rank
        for row in sorted(range(len(split)), key=ranks.__getitem__):
            stratum = strata[row]
            quantiles.append(((seen[stratum] + 0.5) / sizes[stratum], ranks[row], row))
            seen[stratum] += 1
        return np.array(sorted(row for _, _, row in sorted(quantiles)[:count]), dtype=np.int64)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
