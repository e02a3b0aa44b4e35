"""Groups of options as flags of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from frostline.cli._shared.expand_groups import expand_groups


@dataclass(frozen=True, kw_only=True)
class Where:
    """A group with an argument that must be given, and two flags."""

    folder: Annotated[str, typer.Argument(metavar="FOLDER")]
    depth: Annotated[int, typer.Option("--depth", min=1, help="How deep.")] = 3
    names: Annotated[list[str] | None, typer.Option("--name")] = None


@dataclass(frozen=True, kw_only=True)
class How:
    """A second group, which checks its values."""

    slowly: Annotated[bool, typer.Option("--slowly")] = False
    quickly: Annotated[bool, typer.Option("--quickly")] = False

    def __post_init__(self) -> None:
        if self.slowly and self.quickly:
            raise ValueError("slowly and quickly")


@pytest.fixture
def called():
    return []


@pytest.fixture
def app(called):
    def walk(*, where: Where, twice: Annotated[bool, typer.Option("--twice")] = False, how: How) -> None:
        """Walk somewhere."""
        called.append((where, twice, how))

    made = typer.Typer(rich_markup_mode=None)
    made.command()(expand_groups(walk))
    return made


def test_a_command_is_called_with_its_groups_filled(app, called):
    result = CliRunner().invoke(app, ["here", "--depth", "5", "--name", "a", "--name", "b", "--twice", "--slowly"])
    assert result.exit_code == 0, result.output
    assert called == [(Where(folder="here", depth=5, names=["a", "b"]), True, How(slowly=True))]


def test_what_is_not_given_has_the_defaults_of_the_group(app, called):
    assert CliRunner().invoke(app, ["here"]).exit_code == 0
    assert called == [(Where(folder="here"), False, How())]


def test_help_shows_the_flags_in_the_order_of_the_signature_with_the_help_of_the_group(app):
    said = CliRunner().invoke(app, ["--help"]).output
    flags = ["FOLDER", "--depth", "--name", "--twice", "--slowly", "--quickly"]
    assert [said.index(flag) for flag in flags] == sorted(said.index(flag) for flag in flags)
    assert "How deep.  [default: 3; x>=1]" in said
    assert "Walk somewhere." in said


@pytest.mark.parametrize("given", [[], ["here", "--depth", "0"], ["here", "--depth", "deep"]])
def test_values_that_typer_refuses_are_refused(app, called, given):
    assert CliRunner().invoke(app, given).exit_code == 2
    assert called == []


def test_a_group_that_refuses_its_values_stops_the_command(app, called):
    result = CliRunner().invoke(app, ["here", "--slowly", "--quickly"])
    assert isinstance(result.exception, ValueError)
    assert called == []
