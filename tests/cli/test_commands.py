"""What every command has, and the lists that some print."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tests.cli.commands import command_names

from frostline.cli import invoke


def test_help_needs_no_torch():
    command = [sys.executable, "-X", "importtime", "-c", "from frostline.cli import main; main()", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "measure" in done.stdout
    assert not re.search(r"\b(torch|transformers|pandas|datasets)\b", done.stderr)


@pytest.mark.parametrize("command", command_names())
def test_every_command_explains_itself(command, capsys):
    assert invoke([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: frostline {command}" in out
    assert "--json" in out


@pytest.mark.parametrize(("command", "key", "count"), [("encoders", "encoders", 10), ("tasks", "tasks", 29)])
def test_lists_come_as_tables_and_as_json(command, key, count, capsys):
    assert invoke([command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)[key]
    assert len(rows) == count
    assert invoke([command]) == 0
    table = capsys.readouterr().out
    for row in rows:
        assert (row.get("name") or row["model_type"]) in table


def test_the_version_is_printed(capsys):
    assert invoke(["--version"]) == 0
    assert capsys.readouterr().out == "frostline 0.1.0\n"
