"""The part of the docs that lists the studies, written from the registry: `python -m frostline.report.studies_page`."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from frostline.named_options import as_word
from frostline.studies import STUDIES, Study

MARK = "<!-- from here on written by `make docs` -->"


def studies_markdown() -> str:
    """A table of all studies and a section for each."""
    lines = ["| study | paper | what it asks |", "|---|---|---|"]
    lines += [f"| [`{name}`](#{name}) | {one.paper} | {one.question} |" for name, one in sorted(STUDIES.items())]
    sections = [_section(one) for _, one in sorted(STUDIES.items())]
    return "\n".join([*lines, "", *sections])


def _section(study: Study) -> str:
    about = "\n\n".join(
        textwrap.fill(" ".join(paragraph.split()), 128, break_long_words=False, break_on_hyphens=False)
        for paragraph in study.about.split("\n\n")
    )
    recipe = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in study.recipe.items())
    options = ", ".join(f"`{name}={as_word(value)}`" for name, value in study.defaults.items()) or "none"
    quick = ", ".join(f"`{name}={as_word(value)}`" for name, value in study.quick.items()) or "none"
    facts = [
        f"Unless told otherwise: {', '.join(study.tasks)}; {study.seeds} seeds; {recipe or 'the usual recipe'}; "
        f"options {options}.",
        f"With `--quick`: {', '.join(study.quick_tasks)}; {study.quick_seeds} seeds; options {quick}.",
    ]
    return "\n".join([f"## {study.name}", "", study.question, "", about, "", *(f"- {fact}" for fact in facts), ""])


def write(path: Path) -> None:
    """Replace what follows the mark in the page."""
    before, mark, _ = path.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(f"{path}: has no line {MARK}")
    path.write_text(f"{before}{MARK}\n\n{studies_markdown()}", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
