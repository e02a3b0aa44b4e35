"""Inputs that trials on one encoder and one task share: tokens and frozen states, computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens
from frostline.kernels.batch_layout import Ints
from frostline.progress import Progress, detailed, silent
from frostline.records import Recipe
from frostline.states.cache import open_together
from frostline.states.frozen import DType, FrozenStates, StatesAt
from frostline.states.pooled import PooledStates, Pooling, SeenTexts
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
            self._open(split, distinct, None)

    def pass_over(
        self,
        split: str,
        *,
        keep: Iterable[StatesAt] = (),
        texts: Ints | None = None,
        poolings: Sequence[Pooling] = ("mean", "first"),
        memory_limit: int | None = None,
    ) -> SeenTexts:
        """Return the pooled states of a split's texts, and freeze states at several layers, all in one pass.

        Both are bit-identical to those of separate passes. States depend on the batch in which a text runs, in the last
        digits; where only some of the texts are pooled, these therefore run once more in batches of their own.

        Args:
            split: name of the split.
            keep: states that plans will start from, as `freeze` has them.
            texts: numbers of the texts to pool, ascending; None for all of them.
            poolings: how a text's tokens become one vector.
            memory_limit: size in bytes beyond which pooled states are in a temporary file.
        """
        tokens, distinct = self.tokens(split)[0], list(dict.fromkeys(keep))
        numbers = np.arange(len(tokens)) if texts is None else texts
        is_whole = len(numbers) == len(tokens)
        pooled = PooledStates(
            self.encoder,
            tokens if is_whole else tokens.take(numbers),
            poolings=list(dict.fromkeys(poolings)),
            memory_limit=memory_limit,
        )
        self._open(split, distinct, pooled if is_whole else None)
        if not is_whole:
            pooled.run(self._progress)
        return SeenTexts(tokens=pooled.tokens, states=pooled.result(), texts=numbers)

    def _open(self, split: str, layers: Sequence[StatesAt], pooled: PooledStates | None) -> None:
        """Read or build the states at several layers, and collect pooled ones in the same pass."""
        missing = [at for at in layers if (split, at) not in self._states]
        if not missing and pooled is None:
            return
        opened, notes = open_together(
            self.encoder,
            self.tokens(split)[0],
            missing,
            dtype=self.dtype,
            keep=self.keep,
            pooled=pooled,
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

    def labelled_examples(self, tunable: Tunable) -> Examples:
        """Return the training rows and then the validation rows, if there are any, for a plan."""
        train = self.examples(tunable, "train")
        return train if self.task.validation is None else train.followed_by(self.examples(tunable, "validation"))

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
