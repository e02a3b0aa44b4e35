"""The commands of the command line, as typer knows them."""

from __future__ import annotations

import typer

from frostline.cli import app


def command_names() -> list[str]:
    """Every command, in the order of the help."""
    return [str(one.name) for one in app.registered_commands]


def flags_of(name: str) -> dict[str, str]:
    """The flags of a command with their help."""
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return {flag: one.help for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag[:2] == "--"}
