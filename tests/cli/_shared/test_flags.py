"""The library's messages name parameters, and the command line prints flags in their place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.commands import command_names, flags_of

import frostline
from frostline.cli import invoke
from frostline.cli._shared import screen
from frostline.cli._shared.flags import with_flags
from frostline.cli._shared.logs import LogOptions, listening
from frostline.progress import logger

SOURCE = Path(frostline.__file__).parent
CORE = sorted(path for path in SOURCE.rglob("*.py") if "cli" not in path.relative_to(SOURCE).parts)
# pip's flags; and the commands that repeat the papers' figures and tables.
OTHERS_FLAGS = {
    "files/demo_assets.py",
    *(str(path.relative_to(SOURCE)) for path in CORE if path.name.endswith("reproduces.py")),
}
MARKED = re.compile(r"`([a-z][a-z_]*)(?:=[^`]*)?`")


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("`max_latency=2`: is a share", "--max-latency 2: is a share"),
        ("More rows, or a larger `margin`, may show one.", "More rows, or a larger --margin, may show one."),
        ("pass `resume=True` to continue it, or `overwrite=True`", "pass --resume to continue it, or --overwrite"),
        ("`rows='validation'`, `kind='multiple choice'`", "--rows validation, --kind multiple choice"),
        ("`data_dir=FOLDER` and `text_pair`", "--data-dir FOLDER and --text-pair"),
        ("give `encoder` and `task`", "give --model and --data"),
        ("`form='gif'`, `scheme='drak'`", "--format gif, --theme drak"),
        ("`goal='best'` takes all", "--best takes all"),
        ("`frostline report out` tries again; 5 ` 3", "`frostline report out` tries again; 5 ` 3"),
        ("nothing to replace", "nothing to replace"),
    ],
)
def test_a_parameter_is_printed_as_its_flag(message, printed):
    assert with_flags(message) == printed


# Every sentence of the core ------------------------------------------------------------------------------------------


def sentences(path: Path) -> Iterator[str]:
    """The strings of a module that are no docstrings; what is put into one is {}."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped = {id(one) for node in ast.walk(tree) if isinstance(node, documented) for one in ast.walk(node.body[0])
               if isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(one) for one in ast.walk(node) if isinstance(one, ast.Constant)}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_of_the_core_names_a_flag(path):
    if str(path.relative_to(SOURCE)) in OTHERS_FLAGS:
        return
    assert [one for one in sentences(path) if re.search(r"(?<![\w-])--[a-z{]", one)] == []


def test_every_parameter_that_the_core_names_has_a_flag():
    known = {flag for name in command_names() for flag in flags_of(name)}
    named = {
        (path.relative_to(SOURCE).as_posix(), found[0])
        for path in CORE
        if path.name not in ("model_card.py", "studies_page.py")  # Markdown, where backticks are for code
        for sentence in sentences(path)
        for found in MARKED.finditer(sentence)
    }
    assert len(named) > 50
    assert [(path, one) for path, one in sorted(named) if with_flags(one).split()[0] not in known] == []


# Where it is printed -------------------------------------------------------------------------------------------------


def test_errors_name_flags_on_the_command_line(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("mine")
    assert invoke(["study", "freeze", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("another --output\n")


def test_notes_and_reasons_name_flags_on_the_command_line(capsys):
    screen.out().print("note: `max_layers=6` excludes 2 of 4 plans", markup=False)
    assert capsys.readouterr().out == "note: --max-layers 6 excludes 2 of 4 plans\n"


def test_logged_lines_name_flags_on_the_screen_and_in_the_file(tmp_path, capsys):
    with listening(LogOptions(log_file=tmp_path / "log")):
        logger.info("note: a larger `margin`")
        logger.warning("`minutes=1` is short")
        assert screen.printed_lines() == ["note: a larger `margin`"]
    assert capsys.readouterr() == ("note: a larger --margin\n", "warning: --minutes 1 is short\n")
    written = (tmp_path / "log").read_text()
    assert "note: a larger --margin\n" in written and "--minutes 1 is short\n" in written
