from __future__ import annotations

from typing import Any, Literal

import pytest

from frostline.errors import DataError, OptionError
from frostline.tasks.labels import LabelColumn, parse_known_labels, parse_labels
from frostline.tasks.raw_table import RawTable


def table(cells: list[Any], form: Literal["text", "typed"] = "text", names: tuple[str, ...] | None = None) -> RawTable:
    return RawTable(
        name="a.csv",
        columns={"text": ["some words"] * len(cells), "label": cells},
        rows=range(2, len(cells) + 2),
        cells=form,
        class_names={"label": names} if names else {},
    )


def test_names_are_sorted_and_labels_number_them():
    parsed = parse_labels(table(["b", "a", "b", "c", "a", "c"]), "label")
    assert (parsed.kind, parsed.names, parsed.labels) == ("classification", ("a", "b", "c"), (1, 0, 1, 2, 0, 2))


def test_whole_numbers_are_sorted_by_value():
    assert parse_labels(table(["10", "9", "-1", "9"]), "label").names == ("-1", "9", "10")


def test_spaces_around_labels_are_removed_and_said():
    parsed = parse_labels(table(["a ", "a", " b", "b"]), "label")
    assert (parsed.names, parsed.notes) == (("a", "b"), ("spaces around 2 labels in column 'label' were removed",))


def test_a_bar_in_a_label_is_part_of_its_name():
    assert parse_labels(table(["a|b", "c", "a|b", "c"]), "label").names == ("a|b", "c")


def test_a_fraction_makes_it_regression_and_the_note_says_why():
    parsed = parse_labels(table(["1", "2.5", "1e1", "-.5"]), "label")
    assert (parsed.kind, parsed.labels) == ("regression", (1.0, 2.5, 10.0, -0.5))
    assert parsed.notes == ("column 'label' is taken as numbers to predict (regression): it contains fractions",)


@pytest.mark.parametrize(
    ("distinct", "copies", "kind"),
    [(20, 1, "classification"), (21, 1, "regression"), (21, 9, "regression"), (21, 10, "classification")],
)
def test_many_whole_numbers_are_regression_beyond_twenty_and_a_tenth(distinct: int, copies: int, kind: str):
    assert parse_labels(table([str(i) for i in range(distinct)] * copies), "label").kind == kind


def test_the_kind_asked_for_decides():
    assert parse_labels(table(["1", "2", "1", "2"]), "label", kind="regression").labels == (1.0, 2.0, 1.0, 2.0)
    assert parse_labels(table(["0.5", "1.5"] * 2), "label", kind="classification").names == ("0.5", "1.5")
    assert parse_labels(table(["404", "none"] * 2), "label", kind="classification").names == ("404", "none")


@pytest.mark.parametrize("written", ["1_000", "\u0663", "0x10", "1,5", "--1"])
def test_what_only_looks_like_a_number_to_python_is_a_name(written: str):
    with pytest.raises(DataError, match="is not a number"):
        parse_labels(table(["1.5", "2.5", "3.5", written]), "label")


def test_further_rows_use_the_classes_of_the_training_rows():
    known = parse_labels(table(["no", "yes"] * 2), "label")
    assert parse_known_labels(table([" yes", "no"]), "label", known) == (1, 0)
    numbers = parse_labels(table(["0", "1"] * 2), "label")
    assert parse_known_labels(table([1, 0.0], "typed"), "label", numbers) == (1, 0)
    assert parse_known_labels(table(["1.0", "00"]), "label", numbers) == (1, 0)


def test_true_is_not_the_number_one():
    known = LabelColumn(kind="classification", names=("0", "1"), labels=())
    with pytest.raises(DataError, match=r"a\.csv:2: column 'label': True is not one of 0, 1"):
        parse_known_labels(table([True], "typed"), "label", known)


def test_class_numbers_keep_their_own_names_and_order():
    parsed = parse_labels(table([1, 0, 1], "typed", names=("zebra", "ant", "bee")), "label")
    assert (parsed.names, parsed.labels) == (("zebra", "ant", "bee"), (1, 0, 1))
    assert parsed.notes == ("no training row has the label bee",)


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ([0, -1, 1], "a.csv:3: column 'label': no label"),
        ([0, 7, 1], "a.csv:3: column 'label': 7 is not a class number, 0 to 1"),
        ([1, 1, 1], r"only one class \('down'\) in 3 rows"),
    ],
)
def test_class_numbers_that_make_no_sense_are_refused(cells: list[int], problem: str):
    with pytest.raises(DataError, match=problem):
        parse_labels(table(cells, "typed", names=("up", "down")), "label")


def test_named_classes_are_no_regression_target():
    with pytest.raises(OptionError, match="contains classes, not numbers"):
        parse_labels(table([0, 1], "typed", names=("up", "down")), "label", kind="regression")


def test_numbers_with_more_digits_than_a_float_are_told_apart():
    big = 2**60
    assert parse_labels(table([str(big), str(big + 1)] * 2), "label").names == (str(big), str(big + 1))
