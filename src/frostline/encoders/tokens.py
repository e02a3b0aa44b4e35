"""Texts as token ids, unpadded: one flat array, and the start of each text in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from frostline.errors import DataError, EncoderError
from frostline.kernels.batch_layout import Ints

# In inference: large enough for full speed on a CPU, small enough to stay in its cache between two layers.
TOKENS_PER_BATCH = 4096
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Token ids of many texts laid end to end."""

    ids: Ints  # (tokens,)
    types: Ints  # (tokens,), 1 in the second text of a pair where the tokenizer marks it
    lengths: Ints  # (texts,)
    truncated: int  # number of texts that were longer than the limit and cut
    is_cut: np.ndarray[Any, np.dtype[np.bool_]] | None = None  # (texts,), which ones, where known

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Ints:
        """The position of each text's first token."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)

    def take(self, rows: Sequence[int] | Ints) -> Tokens:
        """Return the texts at these positions, in this order."""
        starts = self.starts
        pieces = [slice(starts[row], starts[row] + self.lengths[row]) for row in rows]
        return Tokens(
            ids=np.concatenate([self.ids[piece] for piece in pieces]),
            types=np.concatenate([self.types[piece] for piece in pieces]),
            lengths=self.lengths[np.asarray(rows)],
            truncated=0 if self.is_cut is None else int(self.is_cut[np.asarray(rows)].sum()),
            is_cut=None if self.is_cut is None else self.is_cut[np.asarray(rows)],
        )

    def followed_by(self, others: Tokens) -> Tokens:
        """Return the tokens of these texts and then those of others."""
        return Tokens(
            ids=np.concatenate([self.ids, others.ids]),
            types=np.concatenate([self.types, others.types]),
            lengths=np.concatenate([self.lengths, others.lengths]),
            truncated=self.truncated + others.truncated,
        )

    def batches(self, budget: int) -> list[Ints]:
        """Return positions of texts in batches of similar length, each of at most `budget` tokens if padded.

        The longest texts come first, so that a batch that does not fit into memory fails at once.
        """
        order = np.argsort(-self.lengths, kind="stable")
        batches, start = [], 0
        while start < len(order):
            count = max(1, budget // int(self.lengths[order[start]]))
            batches.append(order[start : start + count])
            start += count
        return batches


def tokenize(tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, *, max_length: int) -> Tokens:
    """Return the texts, or pairs of texts, as token ids with the tokenizer's special tokens, cut at max_length.

    In a pair the longer text is cut. Texts without any token are refused.
    """
    if not texts:
        raise DataError("no texts to tokenize")
    special = tokenizer.num_special_tokens_to_add(pair=pairs is not None)
    if max_length <= special:
        raise EncoderError(f"max length {max_length} leaves no room for text: {special} tokens are special; raise it")
    for row, text in enumerate([*texts, *(pairs or ())]):
        if not text.isascii() and _SURROGATE.search(text):
            raise DataError(f"text {row % len(texts) + 1}: contains a lone surrogate (invalid Unicode); remove it")
    whole = _call(tokenizer, texts, pairs)
    too_long = [row for row, ids in enumerate(whole["input_ids"]) if len(ids) > max_length]
    if too_long:
        cut = _call(
            tokenizer,
            [texts[row] for row in too_long],
            None if pairs is None else [pairs[row] for row in too_long],
            max_length=max_length,
        )
        for key in whole:
            for row, values in zip(too_long, cut[key], strict=True):
                whole[key][row] = values
    lengths = np.array([len(ids) for ids in whole["input_ids"]], dtype=np.int64)
    if not lengths.all():
        row = int(np.argmin(lengths))
        raise DataError(f"text {row + 1} ({texts[row]!r}) has no tokens; remove it")
    flat = {key: np.concatenate(values).astype(np.int64) for key, values in whole.items()}
    ids = flat["input_ids"]
    types = flat.get("token_type_ids", np.zeros_like(ids))
    is_cut = np.isin(np.arange(len(lengths)), too_long)
    return Tokens(ids=ids, types=types, lengths=lengths, truncated=len(too_long), is_cut=is_cut)


def _call(
    tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None, *, max_length: int | None = None
) -> dict[str, list[list[int]]]:
    out = tokenizer(
        list(texts),
        None if pairs is None else list(pairs),
        truncation=max_length is not None,
        max_length=max_length,
        return_attention_mask=False,
        verbose=False,
    )
    return {key: list(out[key]) for key in ("input_ids", "token_type_ids") if key in out}
