"""The commands of the command line, as typer knows them, and how tests call them."""

from __future__ import annotations

import json

import typer

from frostline.cli import app, invoke

WORDS = ["ice", "snow", "frost", "sleet", "hail", "sun", "heat", "noon", "July", "sand"]


def command_names() -> list[str]:
    """Every command, in the order of the help."""
    return [str(one.name) for one in app.registered_commands]


def flags_of(name: str) -> dict[str, str]:
    """The flags of a command with their help."""
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return {flag: one.help for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag[:2] == "--"}


def write_weather(path, *, warm="warm", rows=60):
    lines = [f"{WORDS[row % 10]} number {row},{warm if row % 10 > 4 else 'cold'}" for row in range(rows)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return str(path)


def as_json(capsys, *arguments: str):
    assert invoke([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def refused(capsys, *arguments: str) -> str:
    assert invoke(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return str(err)
