"""The part of the docs that lists the studies, written from the registry, with an example figure of each.

python -m frostline.report.studies_page PAGE                  writes the page
python -m frostline.report.studies_page PAGE FOLDER           draws the figures of the studies in the folder, too
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

from frostline.files.atomic import read_json
from frostline.options import as_word
from frostline.report.opened import open_folder
from frostline.report.pages import page_of
from frostline.report.printed import drawn
from frostline.studies import STUDIES, Study

MARK = "<!-- from here on written by `make docs` -->"
_IMAGES = "images/studies"
_EXAMPLES = f"{_IMAGES}/examples.json"


def studies_markdown(docs: Path) -> str:
    """A table of all studies and a section for each.

    Args:
        docs: the folder of the page, in which the example figures lie.
    """
    lines = ["| study | paper | what it asks |", "|---|---|---|"]
    lines += [f"| [`{name}`](#{name}) | {one.paper} | {one.question} |" for name, one in sorted(STUDIES.items())]
    sections = [_section(one, docs) for _, one in sorted(STUDIES.items())]
    return "\n".join([*lines, "", *sections])


def _section(study: Study, docs: Path) -> str:
    about = "\n\n".join(
        textwrap.fill(" ".join(paragraph.split()), 128, break_long_words=False, break_on_hyphens=False)
        for paragraph in study.about.split("\n\n")
    )
    recipe = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in study.recipe.items())
    options = ", ".join(f"`{name}={as_word(value)}`" for name, value in study.defaults.items()) or "none"
    quick = ", ".join(f"`{name}={as_word(value)}`" for name, value in study.quick.items()) or "none"
    differs = "".join(f"; {name.replace('_', ' ')} {value}" for name, value in study.quick_recipe.items())
    facts = [
        f"Unless told otherwise: {', '.join(study.tasks)}; {_seeds(study.seeds)}; {recipe or 'the usual recipe'}; "
        f"options {options}.",
        f"With `--quick`: {', '.join(study.quick_tasks)}; {_seeds(study.quick_seeds)}{differs}; options {quick}.",
    ]
    shown = []
    if told := read_json(docs / _EXAMPLES, default={}).get(study.name):
        took = f"{told['trials']} trials in {told['seconds']:,} seconds on one core"
        shown = [f"An example, what `frostline study {study.name} --quick` drew on the embedded encoder and data "
                 f"({took}):", "", f"![{told['alt']}]({_IMAGES}/{study.name}.svg)", ""]  # fmt: skip
    parts = [f"## {study.name}", "", study.question, "", about, "", *(f"- {fact}" for fact in facts), "", *shown]
    return "\n".join(parts)


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def draw_examples(folder: Path, docs: Path) -> None:
    """Write the first figure of every study that lies in the folder under its own name, and what is said of it."""
    place = docs / _EXAMPLES
    place.parent.mkdir(parents=True, exist_ok=True)
    told = read_json(place, default={})
    for name in STUDIES.names():
        if (folder / name / "tables.json").is_file():
            opened = open_folder(folder / name)
            figures = page_of(opened).figures
            if figures:
                (place.parent / f"{name}.svg").write_bytes(drawn(figures[0], form="svg"))
                seconds = sum(sum(result.seconds.values()) for _, result in opened.trials)
                told[name] = {"alt": figures[0].alt, "trials": len(opened.trials), "seconds": round(seconds)}
    place.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def write(path: Path) -> None:
    """Replace what follows the mark in the page."""
    before, mark, _ = path.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(f"{path}: has no line {MARK}")
    path.write_text(f"{before}{MARK}\n\n{studies_markdown(path.parent)}", encoding="utf-8")


if __name__ == "__main__":
    page = Path(sys.argv[1])
    if len(sys.argv) > 2:
        draw_examples(Path(sys.argv[2]), page.parent)
    write(page)
