"""A registry refuses what would confuse later."""

from __future__ import annotations

import pytest

from frostline.errors import OptionError
from frostline.registry import Registry, describe


@pytest.fixture
def colours() -> Registry[int]:
    registry: Registry[int] = Registry("colour")
    registry.add("blue", 1)
    registry.add("ice-blue", 2)
    return registry


def test_entries_come_back_in_the_order_they_came(colours):
    assert colours.names() == list(colours) == ["blue", "ice-blue"]
    assert colours.items() == [("blue", 1), ("ice-blue", 2)]
    assert colours["ice-blue"] == 2
    assert "blue" in colours
    assert len(colours) == 2


def test_a_name_taken_is_refused(colours):
    with pytest.raises(ValueError, match="colour 'blue' is registered twice"):
        colours.add("blue", 3)


@pytest.mark.parametrize("name", ["", "Blue", "dark blue", "-blue", "blue-", "1blue"])
def test_a_bad_name_is_refused(colours, name):
    with pytest.raises(ValueError, match="lower-case words"):
        colours.add(name, 3)


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(colours):
    with pytest.raises(OptionError) as caught:
        colours["bleu"]
    assert str(caught.value) == "unknown colour 'bleu' (did you mean blue?); known: blue, ice-blue"


def test_a_package_is_imported_on_first_look_up():
    from frostline.scoring.scores import LAYER_SCORES

    assert "variability" in LAYER_SCORES


def test_a_plug_in_is_described_by_its_docstring_and_its_keywords():
    def paint(wall, *, seed, coats: int = 2, colour: str = "blue", fast: bool = False, thickness: float = 0.5):
        """Paint a wall.

        And wait.
        """

    options = {"coats": 2, "colour": "blue", "fast": False, "thickness": 0.5}
    assert describe(paint, skip=["seed"]) == ("Paint a wall.", options)


def test_a_plug_in_without_docstring_is_refused_by_its_full_name():
    def paint(wall):
        pass

    with pytest.raises(ValueError, match=r"test_registry\..*paint has no docstring to explain it"):
        describe(paint)


@pytest.mark.parametrize("default", [None, (1, 2), ...])
def test_an_option_needs_a_default_that_can_be_written_on_a_command_line(default):
    def paint(wall, *, coats=default):
        """Paint a wall."""

    with pytest.raises(ValueError, match="give option 'coats' a default"):
        describe(paint)


def test_an_option_without_default_is_refused():
    def paint(wall, *, coats):
        """Paint a wall."""

    with pytest.raises(ValueError, match="give option 'coats' a default"):
        describe(paint)
