"""What trials on one encoder and one task share: tokens and frozen states, made once."""

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
    """An encoder and a task, ready for any number of plans."""

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
        """Take down what is shared; nothing is computed before it is needed.

        Args:
            encoder: never changed.
            task: its splits.
            max_length: cut texts at this many tokens.
            dtype: in which frozen states are kept.
            keep: use the disk.
            progress: progress callback.
        """
        self.encoder, self.task = encoder, task
        self.max_length, self.dtype, self.keep = max_length, dtype, keep
        self.notes: list[str] = []  # what is to be known about texts and states, a sentence each
        self._progress = progress
        self._tokens: dict[str, tuple[Tokens, Ints | None]] = {}
        self._states: dict[tuple[str, StatesAt], FrozenStates] = {}

    @classmethod
    def for_recipe(
        cls, encoder: Encoder, task: Task, recipe: Recipe, *, keep: bool = True, progress: Progress = silent
    ) -> SharedInputs:
        """Return the shared inputs of trials with the length limit and the cache format of a recipe."""
        length, dtype = recipe.max_length, recipe.cache_dtype
        return cls(encoder, task, max_length=length, dtype=dtype, keep=keep, progress=progress)

    def tokens(self, split: str) -> tuple[Tokens, Ints | None]:
        """The tokens of a split's texts, and where each question's choices start."""
        if split not in self._tokens:
            found = tokenize_split(self.encoder, self.task.splits[split], max_length=self.max_length)
            self._tokens[split] = found
            if found[0].truncated:
                self._note(f"{found[0].truncated:,} {split} texts were longer than the limit and cut")
        return self._tokens[split]

    def freeze(self, wanted: Iterable[StatesAt], splits: Iterable[str]) -> None:
        """Read or build the states at several layers, for each split in one pass."""
        each = list(dict.fromkeys(wanted))
        for split in splits:
            missing = [at for at in each if (split, at) not in self._states]
            if not missing:
                continue
            found, notes = open_together(
                self.encoder,
                self.tokens(split)[0],
                missing,
                dtype=self.dtype,
                keep=self.keep,
                progress=detailed(self._progress, split),
            )
            self._states |= {(split, at): states for at, states in zip(missing, found, strict=True)}
            for note in notes:
                self._note(note)

    def examples(self, tunable: Tunable, split: str) -> Examples:
        """The rows of a split for a plan."""
        tokens, offsets = self.tokens(split)
        states, at = None, frozen_at(tunable)
        if at is not None:
            self.freeze([at], [split])
            states = self._states[split, at]
        labels = torch.tensor(self.task.splits[split].labels)
        return Examples(tokens=tokens, states=states, labels=labels, offsets=offsets)

    def some_rows(self, count: int, *, seed: int) -> Ints:
        """So many training rows, every class in proportion; a larger number holds those of a smaller one."""
        split = self.task.train
        ranks = row_ranks(split, f"rows {seed}", tell_copies_apart=True)
        strata = strata_of(split)
        sizes, seen = Counter(strata), Counter[int]()
        places: list[tuple[float, bytes, int]] = []
        for row in sorted(range(len(split)), key=ranks.__getitem__):
            stratum = strata[row]
            places.append(((seen[stratum] + 0.5) / sizes[stratum], ranks[row], row))
            seen[stratum] += 1
        return np.array(sorted(row for _, _, row in sorted(places)[:count]), dtype=np.int64)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
