"""Figures as files."""

from __future__ import annotations

import pytest
from tests.report.report_tools import some_scores

from frostline.charts.theme import ROLES
from frostline.errors import OptionError
from frostline.records import Plan
from frostline.report.notebook import layer_stack
from frostline.report.page import Page
from frostline.report.printed import drawn, print_figures
from frostline.report.score_figures import curve_figures

STARTS = {"png": b"\x89PNG\r\n", "svg": b"<svg", "pdf": b"%PDF"}


@pytest.mark.parametrize("form", STARTS)
def test_every_figure_is_a_file_of_the_format(form, tmp_path):
    figures = curve_figures(some_scores())
    found = list(print_figures(figures, tmp_path / "figures", form=form))
    assert [path.name for path in found] == [f"{figure.name}.{form}" for figure in figures]
    for path in found:
        assert path.read_bytes().startswith(STARTS[form])


def test_titles_and_themes_are_in_the_drawing_or_not():
    figure = curve_figures(some_scores())[0]
    with_title = drawn(figure, form="svg").decode()
    assert "Layer 2 is the best by variability" in with_title
    assert "Layer 2 is the best" not in drawn(figure, form="svg", title=False).decode()
    dark = drawn(figure, form="svg", scheme="dark").decode()
    assert "#1c1a18" in dark
    assert "#1c1a18" not in with_title


@pytest.mark.parametrize(
    ("given", "says"),
    [({"form": "gif"}, r"`form='gif'`.*must be one of png, svg, pdf"), ({"scheme": "drak"}, "did you mean dark")],
)
def test_an_unknown_format_or_theme_is_one_line(given, says, tmp_path):
    with pytest.raises(OptionError, match=says):
        list(print_figures(curve_figures(some_scores()), tmp_path, **given))


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "figures").write_text("mine")
    with pytest.raises(OptionError, match="is a file"):
        list(print_figures(curve_figures(some_scores()), tmp_path / "figures"))
    assert (tmp_path / "figures").read_text() == "mine"


def test_the_drawing_of_the_layers_is_printed_too(tmp_path):
    stack = layer_stack(Plan.span(3, 4, 5), 6)
    page = Page(kind="run", title="a run", stack=stack, answer="layers 3 and 4")
    (figure,) = page.printable
    (path,) = print_figures(page.printable, tmp_path, form="svg")
    drawn_as = path.read_text()
    for part in stack:
        assert part["name"] in figure.alt
        assert part["name"] in drawn_as
    assert drawn_as.count(ROLES["tuned"].fill) >= 2
    assert [row["role"] for row in figure.rows] == [part["role"] for part in stack]
