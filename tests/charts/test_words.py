"""How much of an interval is drawn, and what is said of it."""

from __future__ import annotations

import pytest

from frostline.charts.draw import bars, dots, side_by_side, trajectories
from frostline.charts.draw.parts import shown_columns
from frostline.charts.words import clip_intervals


def cut(*rows, **more):
    given = [{"panel": "", "y": y, "low": low, "high": high} for y, low, high in rows]
    return clip_intervals(given, "y", "low", "high", note="whiskers", **more)


def ends(found):
    return [(row["shown_low"], row["shown_high"], row["cut"]) for row in found]


def test_an_interval_that_fits_is_drawn_whole_and_said_to_be_one():
    found, notes = cut((1.0, 0.5, 1.5), (3.0, 2.0, 4.0))
    assert ends(found) == [(0.5, 1.5, None), (2.0, 4.0, None)]
    assert notes == ("whiskers",)


def test_an_interval_that_goes_far_beyond_the_values_is_cut_which_is_marked_and_said():
    found, (note,) = cut((1.0, -50.0, 52.0), (3.0, 2.0, 40.0))
    assert ends(found) == [(-1.0, 5.0, "low high"), (2.0, 5.0, "high")]
    assert note.startswith("whiskers; intervals much wider than the range of the values are cut off")


def test_a_difference_whose_interval_reaches_across_zero_is_drawn_across_zero():
    """Cut on this side of it, it would seem to be shown."""
    found, _ = cut((11.8, -8.6, 32.3), from_zero=True)
    assert ends(found) == [(-8.6, pytest.approx(23.6), "high")]
    found, _ = cut((4.7, -15.1, 24.4), (8.7, 4.4, 12.9), from_zero=True)
    assert found[0]["shown_low"] < 0
    assert (found[1]["shown_low"], found[1]["cut"]) == (4.4, None)


def test_what_values_cannot_be_is_not_drawn_and_no_cut():
    found, (note,) = cut((90.0, 70.0, 110.0), (80.0, 75.0, 85.0), limits=(-100.0, 100.0))
    assert ends(found) == [(70.0, 100.0, None), (75.0, 85.0, None)]
    assert "cut" in note  # the table has more than the drawing


def test_a_value_without_an_interval_has_none_and_nothing_is_said():
    assert cut((1.0, None, None)) == ([{"panel": "", "y": 1.0, "low": None, "high": None, "shown_low": None,
                                        "shown_high": None, "cut": None}], ())  # fmt: skip


@pytest.mark.parametrize(("chart", "axis"), [(bars, "x"), (dots, "x"), (side_by_side, "y")])
def test_cut_ends_have_arrowheads_and_whole_ones_have_none(chart, axis):
    def shapes(rows):
        told = [{**row, "k": number, "kind": "a"} for number, row in enumerate(rows)]
        spec = chart(told, "k", "y", x_title="", y_title="", colour="kind", interval=("shown_low", "shown_high"))
        marks = [layer["mark"] for layer in spec["layer"]]
        return [mark["shape"] for mark in marks if str(mark.get("shape", "")).startswith("triangle")]

    found, _ = cut((1.0, -50.0, 1.5), (3.0, 2.0, 40.0))
    assert shapes(found) == {"x": ["triangle-left", "triangle-right"], "y": ["triangle-down", "triangle-up"]}[axis]
    found, _ = cut((1.0, 0.5, 1.5), (3.0, 2.0, 4.0))
    assert shapes(found) == []


def test_people_are_not_told_what_only_says_how_something_is_drawn():
    rows = [
        {"panel": "", "layer": 1, "shown_low": 0.1, "cut": "low", "gap": None},
        {"panel": "", "layer": 2, "mean": 3},
    ]
    assert shown_columns(rows) == ["layer", "mean"]


def test_lines_that_end_in_one_place_have_their_names_side_by_side():
    rows = [{"epoch": epoch, "layer": layer, "rank": rank} for epoch, ranks in ((0, (1, 2, 3)), (1, (2, 2, 3)))
            for layer, rank in zip((4, 5, 6), ranks, strict=True)]  # fmt: skip
    spec = trajectories(rows, "epoch", "rank", "layer", x_title="", rank_title="")
    named = [row["shown_name"] for row in spec["data"]["values"] if "shown_name" in row]
    assert named == ["4, 5", "6"]
