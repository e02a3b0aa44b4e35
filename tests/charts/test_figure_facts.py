"""The facts that figures are tested by change with what matters, and with nothing else."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from tests.charts.figure_facts import check_figures, check_valid, facts

from frostline.charts import Figure
from frostline.charts.draw import lines

ROWS = tuple({"task": task, "layer": layer, "quality": layer / 10, "low": 0.0, "high": 1.0}
             for task in ("letters", "more") for layer in (1, 2, 3))  # fmt: skip


def make_figure():
    spec = lines(ROWS, "layer", "quality", x_title="layer", y_title="points", colour="task", interval=("low", "high"),
                 levels=[{"level": 0.5, "name": "half"}])  # fmt: skip
    return Figure(name="one", title="Quality rises with depth", alt="Curves over layers", spec=spec, rows=ROWS)


def changed(change):
    """The figure after a change to a copy of its specification."""
    figure = make_figure()
    spec = copy.deepcopy(dict(figure.spec))
    change(spec, *spec["layer"])
    return replace(figure, spec=spec)


FAULTS = {
    "another mark": lambda spec, area, line, *_: line["mark"].update(type="bar"),
    "a mark less": lambda spec, *_: spec["layer"].pop(),
    "another field": lambda spec, area, line, *_: line["encoding"]["y"].update(field="low"),
    "another kind of field": lambda spec, area, line, *_: line["encoding"]["x"].update(type="nominal"),
    "another end of an interval": lambda spec, area, *_: area["encoding"]["y2"].update(field="quality"),
    "another axis title": lambda spec, area, line, *_: line["encoding"]["y"].update(title="percent"),
    "another group": lambda spec, area, line, *_: line["encoding"]["color"].update(field="layer"),
    "an axis upside down": lambda spec, area, line, *_: line["encoding"]["y"]["scale"].update(reverse=True),
    "an axis with other ends": lambda spec, area, line, *_: line["encoding"]["y"]["scale"].update(domain=[0, 9]),
    "values that are hidden": lambda spec, area, line, *_: line.update(transform=[{"filter": "datum.layer > 1"}]),
    "another column when pointed at": lambda spec, area, line, point, *_: point["encoding"]["tooltip"].pop(),
    "nothing when pointed at": lambda spec, area, line, point, *_: point["encoding"].pop("tooltip"),
    "another level": lambda spec, *_: spec["data"]["values"][-1].update(level=0.6),
}
LOOKS = {
    "another colour": lambda spec, area, line, *_: line["encoding"]["color"]["scale"].update(range=["#000", "#111"]),
    "another size": lambda spec, *_: spec.update(width=100, height=100),
    "a thicker line": lambda spec, area, line, *_: line["mark"].update(strokeWidth=9),
    "a mark without settings": lambda spec, area, line, *_: line.update(mark=line["mark"]["type"]),
    "marks nested deeper": lambda spec, *parts: spec.update(layer=[{"layer": list(parts)}]),
    "a shared axis written once": lambda spec, area, line, point, *_: spec["layer"].__setitem__(
        slice(1, 3), [{"encoding": {"x": line["encoding"].pop("x")}, "layer": [line, point]}]),
    "data by name": lambda spec, *_: spec.update(datasets={"d": spec["data"]["values"]}, data={"name": "d"}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_changes_the_facts(fault):
    assert facts(changed(FAULTS[fault])) != facts(make_figure())


@pytest.mark.parametrize("look", LOOKS)
def test_the_look_of_a_figure_and_the_nesting_of_its_specification_do_not(look):
    figure = changed(LOOKS[look])
    assert figure.spec != make_figure().spec
    assert facts(figure) == facts(make_figure())


@pytest.mark.parametrize("field", ["name", "title", "alt", "paper"])
def test_words_around_a_figure_are_facts(field):
    assert facts(replace(make_figure(), **{field: "other"})) != facts(make_figure())


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_every_single_value_is_a_fact(row):
    other = [dict(one) for one in ROWS]
    other[row]["quality"] += 0.01
    figure = changed(lambda spec, *_: spec["data"]["values"].__setitem__(row, other[row]))
    assert facts(replace(figure, rows=tuple(other))) != facts(make_figure())


def test_a_row_of_the_table_that_is_not_drawn_is_an_error():
    with pytest.raises(AssertionError, match="rows that are not drawn"):
        facts(changed(lambda spec, *_: spec["data"]["values"].pop(0)))


def test_an_invalid_specification_is_an_error():
    with pytest.raises(Exception, match="qantitative"):
        check_valid(changed(lambda spec, area, *_: area["encoding"]["x"].update(type="qantitative")))


def test_figures_are_compared_with_what_was_written_down(tmp_path, monkeypatch):
    path = tmp_path / "figures.txt"
    monkeypatch.setenv("FROSTLINE_WRITE_GOLDEN", "1")
    check_figures([make_figure()], path)
    monkeypatch.delenv("FROSTLINE_WRITE_GOLDEN")
    check_figures([make_figure()], path)
    with pytest.raises(AssertionError, match="Quality falls with depth"):
        check_figures([replace(make_figure(), title="Quality falls with depth")], path)
    with pytest.raises(AssertionError):
        check_figures([], path)
