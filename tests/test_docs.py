"""What the README promises is what the registries hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.commands import command_names, flags_of

from frostline.encoders.families import FAMILIES
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES
from frostline.report.studies_page import MARK, studies_markdown
from frostline.studies import STUDIES

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_lists_every_family_with_its_examples():
    readme = (ROOT / "README.md").read_text()
    for _, family in FAMILIES.items():
        assert f"| {family.title} | {family.examples} |" in readme


def test_the_page_on_tuning_lists_every_strategy_and_method():
    page = (ROOT / "docs" / "tune.md").read_text()
    for name, strategy in STRATEGIES.items():
        options = ", ".join(f"`{option}`" for option in strategy.defaults) or "none"
        assert f"| `{name}` | {options} | {strategy.summary} |" in page
    for name, method in METHODS.items():
        options = ", ".join(f"`{option}`" for option in method.defaults) or "none"
        kind = "stock" if method.is_stock else "Frostline only"
        assert f"| `{name}` | {options} | {method.learning_rate:g} | {kind} | {method.summary} |" in page


def test_the_page_on_studies_is_what_the_registry_says():
    page = (ROOT / "docs" / "studies.md").read_text()
    assert page.partition(MARK)[2].strip() == studies_markdown(ROOT / "docs").strip(), "run `make docs`"


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


def test_every_study_has_an_example_with_what_it_took():
    page = (ROOT / "docs" / "studies.md").read_text()
    for name in STUDIES.names():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert re.search(r"\(\d+ trials in [\d,]+ seconds on one core\)", section), f"{name}: run `make docs-figures`"
        assert f"](images/studies/{name}.svg)" in section
