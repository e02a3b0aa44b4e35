"""Every `frostline` command, every Python block and every `make` target of the README works as it is written."""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.search.race_tools import save_shallow

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
HUB_MODELS = ("roberta-base", "bert-base-uncased")  # replaced by a folder with a tiny model: tests have no network
# The same command on small data: one epoch, and only models of one layer take part in a race.
SMALL = {"run": ["--epochs", "1", "--max-layers", "1", "--threads", "1"], "tune": ["--epochs", "1", "--threads", "1"]}


def blocks(language: str) -> list[str]:
    """The contents of the README's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def shell_commands() -> list[list[str]]:
    """The README's shell commands as lists of words, without their comments."""
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


FROSTLINE = [words[1:] for words in shell_commands() if Path(words[0]).name == "frostline"]
TARGETS = sorted({word for words in shell_commands() if words[0] == "make" for word in words[1:]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the README names, and a tiny model to use instead of hub models."""
    home = tmp_path_factory.mktemp("readme")
    _write_reviews(home / "reviews.csv", labels=True)
    _write_reviews(home / "new.csv", labels=False)
    save_shallow(home / "tiny-model")
    return home


def _write_reviews(path: Path, *, labels: bool) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["review", "stars"] if labels else ["review"])
        for number in range(80):
            word, stars = (("dull", "one"), ("warm", "five"))[number % 2]
            table.writerow([f"a {word} evening {number}", *([stars] if labels else [])])


def _run(words: list[str], folder: Path) -> None:
    environment = {**os.environ, "FROSTLINE_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"


def test_the_readme_has_commands_and_python_to_check():
    assert len(FROSTLINE) >= 3
    assert len(blocks("python")) >= 1
    assert {"demo", "test"} <= set(TARGETS)


@pytest.mark.embedded
def test_every_frostline_command_of_the_readme_runs(folder):
    for words in FROSTLINE:  # in the README's order: later commands use what earlier ones wrote
        command = ["tiny-model" if word in HUB_MODELS else word for word in words]
        _run(["-m", "frostline", *command, *SMALL.get(command[0], [])], folder)


def test_every_python_block_of_the_readme_runs(folder):
    for block in blocks("python"):
        for name in HUB_MODELS:
            block = block.replace(f'"{name}"', '"tiny-model"')
        _run(["-c", f"import torch\ntorch.set_num_threads(1)\n{block}"], folder)


@pytest.mark.parametrize("target", TARGETS)
def test_every_make_target_of_the_readme_exists(target):
    shown = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
