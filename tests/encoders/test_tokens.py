"""Texts become token ids as the tokenizer says, cut and counted where they are too long."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tiny import random_tokens, tiny_tokenizer

from frostline.encoders.tokens import tokenize
from frostline.errors import DataError, EncoderError


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def test_texts_are_what_the_tokenizer_gives_laid_end_to_end(tokenizer):
    texts = ["frost", "a thaw", "x"]
    tokens = tokenize(tokenizer, texts, None, max_length=64)
    expected = tokenizer(texts)["input_ids"]
    assert tokens.lengths.tolist() == [len(ids) for ids in expected]
    assert tokens.ids.tolist() == list(chain(*expected))
    assert tokens.truncated == 0


def test_pairs_carry_token_types(tokenizer):
    tokens = tokenize(tokenizer, ["ice", "snow"], ["melts", "falls"], max_length=64)
    expected = tokenizer(["ice", "snow"], ["melts", "falls"])
    assert tokens.types.tolist() == list(chain(*expected["token_type_ids"]))
    assert set(tokens.types.tolist()) == {0, 1}


def test_long_texts_are_cut_and_counted(tokenizer):
    texts = ["short", "a" * 50, "b" * 9, "c" * 8]
    tokens = tokenize(tokenizer, texts, None, max_length=10)
    assert tokens.truncated == 2
    assert tokens.lengths.tolist() == [7, 10, 10, 10]
    cut = tokenizer(texts, truncation=True, max_length=10)["input_ids"]
    assert tokens.ids.tolist() == list(chain(*cut))


def test_a_long_pair_is_cut_at_its_longer_text(tokenizer):
    tokens = tokenize(tokenizer, ["a" * 30], ["bb"], max_length=10)
    assert tokens.lengths.tolist() == [10]
    assert tokens.ids.tolist() == tokenizer(["a" * 30], ["bb"], truncation=True, max_length=10)["input_ids"][0]


def test_a_limit_that_leaves_no_room_for_text_is_refused(tokenizer):
    with pytest.raises(EncoderError, match="max length 2 leaves no room for text: 2 tokens are special; raise it"):
        tokenize(tokenizer, ["ice"], None, max_length=2)


def test_a_text_without_any_token_is_refused():
    bare = tiny_tokenizer()
    bare.backend_tokenizer.post_processor = None
    with pytest.raises(DataError, match=r"text 2 .* has no tokens"):
        tokenize(bare, ["ice", ""], None, max_length=10)


def test_taking_rows_keeps_their_order():
    tokens = random_tokens((2, 3, 1))
    taken = tokens.take([2, 0])
    assert taken.lengths.tolist() == [1, 2]
    assert taken.ids.tolist() == [*tokens.ids[5:6], *tokens.ids[0:2]]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 100))
def test_batches_hold_every_text_once_longest_first_within_the_budget(lengths, budget):
    tokens = random_tokens(tuple(lengths))
    batches = tokens.batches(budget)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    longest = [int(tokens.lengths[batch].max()) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for batch, most in zip(batches, longest, strict=True):
        assert len(batch) == 1 or len(batch) * most <= budget
