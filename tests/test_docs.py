"""The tables, flags, commands and links of the README and the docs agree with the code."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields, replace
from pathlib import Path

import pytest
from docs import generate
from tests.cli.commands import command_names, flags_of

from frostline.plans.strategies import STRATEGIES
from frostline.records import Plan, Recipe
from frostline.studies import STUDIES

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_tables_are_what_the_registries_say(page):
    assert generate.filled(page.read_text()) == page.read_text(), "run `make docs`"


@pytest.mark.parametrize("part", generate.PARTS)
def test_every_generated_table_stands_on_some_page(part):
    assert any(f"<!-- generated: {part} -->" in page.read_text() for page in generate.PAGES)


def test_a_plug_in_that_is_missing_on_a_page_is_put_there(monkeypatch):
    page = (ROOT / "docs" / "tune.md").read_text()
    monkeypatch.setattr(STRATEGIES, "_entries", dict(STRATEGIES.items()))
    STRATEGIES.add("another", replace(STRATEGIES["top-k"], name="another", summary="Tune others."))
    assert generate.filled(page) != page
    assert "| `another` | `k` | Tune others. |" in generate.filled(page)


def test_only_what_is_marked_is_replaced():
    page = "before\n<!-- generated: families -->\nold\n<!-- end -->\nbetween\n<!-- end -->\nafter\n"
    written = generate.filled(page)
    assert written.startswith("before\n<!-- generated: families -->\n\n| encoder family | for example |\n|---|---|\n")
    assert written.endswith("|\n\n<!-- end -->\nbetween\n<!-- end -->\nafter\n") and "old" not in written
    assert generate.filled(written) == written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_flag_that_a_page_names_exists(page):
    known = {"--help", "--version", *(flag for name in command_names() for flag in flags_of(name))}
    ours = "\n".join(line for line in page.read_text().splitlines() if not line.startswith("$ ray "))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours))
    assert named <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_exists_and_has_the_flags_that_it_is_given(page):
    for line in re.findall(r"^\$ (?:\.venv/bin/)?frostline (.*)$", page.read_text(), re.MULTILINE):
        name, *words = shlex.split(line, comments=True)
        assert name in command_names(), line
        assert {word for word in words if word.startswith("--")} <= set(flags_of(name)), line


@pytest.mark.parametrize(("file", "record"), [("plan.json", Plan), ("recipe.json", Recipe)])
def test_the_page_on_files_lists_the_fields_of_a_record(file, record):
    rows = re.findall(rf"^\| `{file}` \| (`.*`) \|$", (ROOT / "docs" / "files.md").read_text(), re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == [[field.name for field in fields(record)]]


def test_every_study_has_an_example_with_what_it_took():
    page = (ROOT / "docs" / "studies.md").read_text()
    for name in STUDIES.names():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert re.search(r"\(\d+ trials in [\d,]+ seconds on one core\)", section), f"{name}: run `make docs-figures`"
        assert f"](images/studies/{name}.svg)" in section
