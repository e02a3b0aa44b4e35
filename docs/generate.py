"""Write the tables of the README and the docs from the registries, so that they cannot go stale.

python -m docs.generate                      write the JSON schemas and fill the marked parts of all pages
python -m docs.generate --figures FOLDER     first draw an example figure of each study in the folder

A marked part begins with <!-- generated: NAME --> and ends with <!-- end -->; NAME is a key of `PARTS`.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from docs.json_schemas import SCHEMAS, schema
from docs.reproduce import reproduction

from frostline.cli._shared.flags import with_flags
from frostline.encoders.families import FAMILIES
from frostline.files.atomic import read_json
from frostline.options import as_word
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES
from frostline.records import Recipe
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import DEFAULT_SCORES
from frostline.studies import STUDIES, Study
from frostline.tasks import PRESETS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
_PART = re.compile(r"(<!-- generated: ([a-z -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_PROTOCOL = re.compile(r"--protocol [a-z-]+")
_IMAGES = "images/studies"
_SCHEMAS = DOCS / "schemas"
_EXAMPLES = DOCS / _IMAGES / "examples.json"


def filled(page: str) -> str:
    """Return the page with its marked parts written from the registries."""
    return _PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n\n{found[4]}", page)


def families() -> str:
    """Return the table of encoder families with examples."""
    return _table(["encoder family", "for example"], ([one.title, one.examples] for _, one in sorted(FAMILIES.items())))


def family_details() -> str:
    """Return the table of facts about each encoder family."""
    rows = (
        [one.title, f"`{name}`", _yes(one.can_pack), _yes(one.has_multiple_choice), one.note]
        for name, one in sorted(FAMILIES.items())
    )
    return _table(["family", "`model_type`", "runs without padding", "multiple choice", "note"], rows)


def scores() -> str:
    """Return the table of layer scores."""
    rows = (
        [f"`{name}`", "yes" if name in DEFAULT_SCORES else "", one.better, one.needs, one.summary]
        for name, one in sorted(LAYER_SCORES.items())
    )
    return _table(["score", "by default", "good", "needs", "meaning"], rows)


def strategies() -> str:
    """Return the table of strategies."""
    rows = ([f"`{name}`", _names(one.defaults), one.summary] for name, one in sorted(STRATEGIES.items()))
    return _table(["strategy", "options", "effect"], rows)


def methods() -> str:
    """Return the table of tuning methods."""
    rows = (
        [f"`{name}`", _names(one.defaults), f"{one.learning_rate:g}", "stock" if one.is_stock else "Frostline only",
         one.summary]
        for name, one in sorted(METHODS.items())
    )  # fmt: skip
    return _table(["method", "options", "learning rate", "saved as", "effect"], rows)


def presets() -> str:
    """Return the table of presets."""
    rows = ([f"`{name}`", one.kind, ", ".join(one.metrics), one.summary] for name, one in sorted(PRESETS.items()))
    return _table(["task", "kind", "metrics", "question"], rows)


def studies() -> str:
    """Return the table of studies and a section for each."""
    known = sorted(STUDIES.items())
    table = _table(["study", "paper", "question"],
                   ([f"[`{name}`](#{name})", one.paper, one.question] for name, one in known))  # fmt: skip
    return "\n\n".join([table, *(_section(one) for _, one in known)])


def schemas() -> str:
    """Return the table of JSON schemas."""
    rows = ([what, f"[{name}.json](schemas/{name}.json)"] for name, (what, _) in SCHEMAS.items())
    return _table(["JSON", "schema"], rows)


def schema_files() -> dict[Path, str]:
    """Return the files of the JSON schemas, by path."""
    made = {name: json.dumps(schema(name), indent=2, ensure_ascii=False) for name in SCHEMAS}
    return {_SCHEMAS / f"{name}.json": f"{text}\n" for name, text in made.items()}


PARTS: Mapping[str, Callable[[], str]] = {
    "families": families,
    "family details": family_details,
    "scores": scores,
    "strategies": strategies,
    "methods": methods,
    "presets": presets,
    "studies": studies,
    "reproduction": reproduction,
    "schemas": schemas,
}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first, *others = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return "\n".join([first, f"|{'---|' * len(head)}", *others])


def _names(options: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}`" for name in options) or "none"


def _yes(claim: bool) -> str:
    return "yes" if claim else "no"


def _section(study: Study) -> str:
    about = "\n\n".join(
        textwrap.fill(" ".join(paragraph.split()), 128, break_long_words=False, break_on_hyphens=False)
        for paragraph in study.about.split("\n\n")
    )
    recipe = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in study.recipe.items())
    differs = "".join(f"; {name.replace('_', ' ')} {value}" for name, value in study.quick_recipe.items())
    selection = _PROTOCOL.sub(r"`\g<0>`", with_flags(study.selection))
    facts = "\n".join(
        [
            f"- Defaults: {', '.join(study.tasks)}; {_seeds(study.seeds)}; "
            f"{recipe or 'the default recipe'}; options {_values(study.defaults)}.",
            f"- Selection: {selection}",
            *_unstated(study),
            f"- With `--quick`: {', '.join(study.quick_tasks)}; {_seeds(study.quick_seeds)}{differs}; "
            f"options {_values(study.quick)}.",
        ]
    )
    return "\n\n".join([f"## {study.name}", study.question, about, facts, *_example(study)])


def _unstated(study: Study) -> list[str]:
    """Return one line on what the paper leaves open about training; none if it leaves nothing open."""
    recipe = Recipe(**study.recipe)
    fields = [f"{name.replace('_', ' ')} {getattr(recipe, name)} ({reason})" for name, reason in study.unstated.items()]
    return [f"- Unstated in the paper: {'; '.join(fields)}."] if fields else []


def _example(study: Study) -> list[str]:
    example = read_json(_EXAMPLES, default={}).get(study.name)
    if example is None:
        return []
    took = f"{example['trials']} trials in {example['seconds']:,} seconds on one core"
    return [
        f"Example: a figure of `frostline study {study.name} --quick` on the embedded encoder and data ({took}).",
        f"![{example['alt']}]({_IMAGES}/{study.name}.svg)",
    ]


def _values(options: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}={as_word(value)}`" for name, value in options.items()) or "none"


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def draw_examples(folder: Path) -> None:
    """Draw the first figure of every study in the folder, and store its description, trials and seconds."""
    from frostline.report.pages import page_of
    from frostline.report.printed import drawn
    from frostline.report.result_folder import open_folder

    _EXAMPLES.parent.mkdir(parents=True, exist_ok=True)
    examples = read_json(_EXAMPLES, default={})
    for name in STUDIES.names():
        if (folder / name / "tables.json").is_file():
            opened = open_folder(folder / name)
            figures = page_of(opened).figures
            if figures:
                (_EXAMPLES.parent / f"{name}.svg").write_bytes(drawn(figures[0], form="svg"))
                seconds = sum(sum(result.seconds.values()) for _, result in opened.trials)
                examples[name] = {"alt": figures[0].alt, "trials": len(opened.trials), "seconds": round(seconds)}
    _EXAMPLES.write_text(json.dumps(examples, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Write the schemas and fill all pages."""
    parser = argparse.ArgumentParser(description="Write the generated parts of the docs.")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="folder of studies to draw examples from")
    if folder := parser.parse_args().figures:
        draw_examples(folder)
    _SCHEMAS.mkdir(exist_ok=True)
    for path, text in schema_files().items():
        path.write_text(text, encoding="utf-8")
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
