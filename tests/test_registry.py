"""A registry refuses what would confuse later."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType

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


# Entry points --------------------------------------------------------------------------------------------------------

GROUP = "frostline.test_colours"


class Plugged:
    """A registry with an own package, and other distributions beside it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.registry: Registry[int] = Registry("colour", package="own_colours", entry_points=GROUP)
        holder = ModuleType("registry_of_colours")
        vars(holder)["COLOURS"] = self.registry
        patch.setitem(sys.modules, "registry_of_colours", holder)
        patch.syspath_prepend(str(folder))
        (folder / "own_colours").mkdir()
        (folder / "own_colours" / "__init__.py").touch()
        self.write("own_colours/blue", "COLOURS.add('blue', 1)")
        self._patch = patch

    def write(self, module: str, *lines: str) -> None:
        path = self.folder / f"{module}.py"
        path.write_text("\n".join(["from registry_of_colours import COLOURS", *lines]))

    def install(self, distribution: str, **modules: str) -> None:
        """A distribution whose modules run a line each."""
        about = self.folder / f"{distribution}-1.5.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n")
        points = [f"{name} = {name}" for name in modules]
        (about / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points]))
        for name, line in modules.items():
            self.write(name, line)


@pytest.fixture
def plugged(tmp_path, monkeypatch):
    before = set(sys.modules)
    yield Plugged(tmp_path, monkeypatch)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_other_distributions_come_after_the_own_package_and_once(plugged):
    plugged.install("zinc", zinc_white="COLOURS.add('zinc-white', 3)")
    plugged.install("lead", lead_white="COLOURS.add('lead-white', 2)", lead_red="COLOURS.add('lead-red', 4)")
    assert plugged.registry.names() == ["blue", "lead-red", "lead-white", "zinc-white"]
    assert plugged.registry.names() == plugged.registry.names()
    assert plugged.registry["lead-white"] == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("import not_installed_anywhere", "ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("COLOURS.add('blue', 9)", "ValueError: colour 'blue' is registered twice"),
        ("COLOURS.add('Dark Blue', 9)",
         "ValueError: colour name 'Dark Blue': use lower-case words joined by - _ . or /"),
        ("COLOURS.add('green', 9); raise RuntimeError('first line\\nsecond')", "RuntimeError: first line"),
        ("COLOURS.add('green', 9", "SyntaxError: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_another_distribution_is_one_line_and_the_other_choices_stay(plugged, line, reason, caplog):
    plugged.install("lead", lead_white=line)
    plugged.install("zinc", zinc_white="COLOURS.add('zinc-white', 3)")
    with caplog.at_level(logging.WARNING, logger="frostline"):
        assert plugged.registry.items() == [("blue", 1), ("zinc-white", 3)]
        assert plugged.registry.names() == ["blue", "zinc-white"]
    (record,) = caplog.records
    assert record.name == "frostline" and "\n" not in record.getMessage()
    start = f"lead 1.5: its colour 'lead_white' (lead_white) is left out: {reason}"
    assert record.getMessage().startswith(start)


def test_a_name_that_is_taken_by_an_own_entry_is_refused_also_where_those_are_not_loaded_yet(plugged, caplog):
    plugged.install("lead", lead_white="COLOURS.add('blue', 9)")
    other: Registry[int] = Registry("shade", entry_points=GROUP)
    with caplog.at_level(logging.WARNING, logger="frostline"):
        assert other.names() == []
    assert "colour 'blue' is registered twice" in caplog.text
    assert plugged.registry["blue"] == 1


def test_every_kind_of_plug_in_has_its_group_of_entry_points():
    from frostline.encoders.families import FAMILIES
    from frostline.plans.methods import METHODS
    from frostline.plans.strategies import STRATEGIES
    from frostline.scoring.scores import LAYER_SCORES
    from frostline.studies import STUDIES

    groups = {registry._group for registry in (LAYER_SCORES, STRATEGIES, METHODS, FAMILIES, STUDIES)}
    assert groups == {f"frostline.{name}" for name in ("scores", "strategies", "methods", "families", "studies")}
