"""Options by name: one set of rules for scores, strategies, methods and studies."""

from __future__ import annotations

import pytest

from frostline.errors import OptionError
from frostline.options import as_word, in_words, parse_options, read_options

DEFAULTS = {"layers": 3, "rate": 0.5, "keep": True, "score": "fisher"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"layers": 2, "rate": 0.25, "keep": False, "score": "rank"},) * 2,
        ({"layers": "2", "rate": "0.25", "keep": "no", "score": "rank"},
         {"layers": 2, "rate": 0.25, "keep": False, "score": "rank"}),
        ({"rate": 1}, {"rate": 1.0}),
        ({"keep": "TRUE"}, {"keep": True}),
    ],
)  # fmt: skip
def test_values_and_words_are_read_as_what_the_default_is(given, expected):
    found = read_options("strategy x", DEFAULTS, given)
    assert found == {**DEFAULTS, **expected}
    assert {name: type(value) for name, value in found.items()} == {name: type(v) for name, v in DEFAULTS.items()}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layer": 2}, "method x: unknown option 'layer' (did you mean layers?); known: layers, rate, keep, score"),
        ({"layers": "two"}, "method x: layers 'two' must be a whole number"),
        ({"layers": 2.5}, "method x: layers 2.5 must be a whole number"),
        ({"layers": True}, "method x: layers True must be a whole number"),
        ({"keep": 1}, "method x: keep 1 must be yes or no"),
        ({"keep": "perhaps"}, "method x: keep 'perhaps' must be yes or no"),
        ({"rate": "nan"}, "method x: rate 'nan' must be finite"),
        ({"rate": True}, "method x: rate True must be a number"),
        ({"score": 3}, "method x: score 3 must be a word"),
    ],
)
def test_what_cannot_be_is_one_line(given, message):
    with pytest.raises(OptionError) as caught:
        read_options("method x", DEFAULTS, given)
    assert str(caught.value) == message


def test_options_are_parsed_from_words_and_written_as_words():
    words = {"layers": "2", "keep": "yes"}
    assert parse_options(["layers=2", " keep = yes "], where="x") == words
    assert in_words({"layers": 2, "keep": True}) == "layers=2,keep=yes"
    assert as_word(False) == "no" and as_word(0.5) == "0.5"


@pytest.mark.parametrize("piece", ["", "layers", "=2"])
def test_a_piece_of_another_form_is_refused(piece):
    with pytest.raises(OptionError) as caught:
        parse_options(["rate=1", piece], where="'x:rate=1'")
    assert str(caught.value) == f"'x:rate=1': {piece!r} is not of the form name=value"


def test_an_option_given_twice_is_refused():
    with pytest.raises(OptionError, match="'top-k:k=1,k=2': k is given twice; give it once"):
        parse_options(["k=1", "k=2"], where="'top-k:k=1,k=2'")
