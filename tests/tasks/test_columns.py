from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from frostline.errors import DataError
from frostline.tasks.columns import choose_columns
from frostline.tasks.raw_table import RawTable


def table(*columns: str) -> RawTable:
    return RawTable(name="a.csv", columns={column: ["x"] for column in columns}, rows=[2], cells="text")


@pytest.mark.parametrize(
    ("columns", "text", "pair", "label"),
    [
        (("text", "label"), "text", None, "label"),
        (("id", "Review", "Sentiment"), "Review", None, "Sentiment"),
        (("idx", "sentence", "label"), "sentence", None, "label"),
        (("comment", "stars", "user"), "comment", None, "stars"),
        (("sentence1", "sentence2", "label", "idx"), "sentence1", "sentence2", "label"),
        (("premise", "hypothesis", "gold_label"), "premise", "hypothesis", "gold_label"),
        (("Question1", "Question2", "is_duplicate"), "Question1", "Question2", "is_duplicate"),
        (("question", "passage", "label"), "passage", "question", "label"),
        (("question", "sentence", "label"), "question", "sentence", "label"),
        (("text", "mood"), "text", None, "mood"),
        (("snippet", "label"), "snippet", None, "label"),
        (("premise", "hypothesis", "verdict"), "premise", "hypothesis", "verdict"),
        (("Text A", "Text B", "score"), "Text A", "Text B", "score"),
    ],
)
def test_common_names_are_understood(columns: tuple[str, ...], text: str, pair: str | None, label: str):
    chosen = choose_columns(table(*columns))
    assert (chosen.text, chosen.pair, chosen.label) == (text, pair, label)
    assert len(chosen.notes) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"text": "b", "label": "c"}, ("b", None, "c")),
        ({"text": "sentence1"}, ("sentence1", None, "label")),
        ({"text": "sentence2", "text_pair": "sentence1"}, ("sentence2", "sentence1", "label")),
        ({"text_pair": "sentence2"}, ("sentence1", "sentence2", "label")),
        ({"label": "b"}, ("sentence1", "sentence2", "b")),
    ],
)
def test_what_is_given_is_kept_and_the_rest_guessed(given: dict[str, Any], expected: tuple[str | None, ...]):
    chosen = choose_columns(table("sentence1", "sentence2", "b", "c", "label"), **given)
    assert (chosen.text, chosen.pair, chosen.label) == expected


def test_only_guesses_are_said():
    assert choose_columns(table("a", "b"), text="a", label="b").notes == ()
    assert choose_columns(table("a", "text", "label"), label="a").notes == (
        "columns guessed from their names: text = 'text'",
    )


def test_the_columns_of_choices_are_said_as_one_guess():
    guessed = choose_columns(table("question", "option_a", "option_b", "label"), text="question", label="label")
    assert guessed.guessed == (("choices", "option_a"), ("choices", "option_b"))
    assert guessed.notes == ("columns guessed from their names: choices = 'option_a', 'option_b'",)


def test_choices_are_found_by_number_or_letter():
    assert choose_columns(table("ctx", "ending0", "ending1", "ending10", "ending2", "label")).choices == (
        "ending0",
        "ending1",
        "ending2",
        "ending10",
    )
    assert choose_columns(table("question", "option_a", "option_b", "label")).choices == ("option_a", "option_b")
    assert choose_columns(table("question", "answer", "label")).choices == ()


def test_a_file_without_a_header_shows_its_first_row_shortened():
    with pytest.raises(DataError) as caught:
        choose_columns(table("word " * 40, "1", "2"))
    assert len(str(caught.value)) < 200


def test_an_integer_column_name_of_a_frame_is_its_text():
    from frostline.tasks import load_task

    frame = pd.DataFrame({0: [f"t{i}" for i in range(20)], 1: [i % 2 for i in range(20)]})
    assert load_task(frame, text="0", label="1").label_names == ("0", "1")
