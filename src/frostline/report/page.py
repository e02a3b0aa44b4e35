"""A report as one HTML file that opens offline.

The page's policy allows only its own two scripts, by their hashes, and connections only from a live page to its own
server; text from outside is escaped everywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frostline.charts import Figure
from frostline.charts.draw.parts import shown_columns
from frostline.charts.theme import config
from frostline.records.table import Table, cell_in_words
from frostline.report.stack_figure import stack_figure

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_ROWS = 400  # per table
_LONGEST = 400  # characters per cell
_NUMBER = re.compile(r"[+-]?[\d.,]*%?")
_WRAPPED = 32  # characters beyond which a column's cells have several lines


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page.

    Args:
        name: its heading.
        text: sentences.
        figures: figures.
        tables: tables.
        legend: words and their meanings.
    """

    name: str
    text: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    legend: Sequence[tuple[str, str]] = ()

    @property
    def anchor(self) -> str:
        """The section's name in links."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a page.

    Args:
        kind: kind of result, in a word or two.
        title: title of the page.
        subtitle: line below the title.
        sections: sections from the top down.
        stack: names and roles of the layers from the top down, for the drawing; empty for none.
        answer: the chosen plan, in a line.
        why: reasons for the choice.
        given_up: costs and savings of the choice.
        progress: progress of a study: done, total, and a message.
        command: command line that produced the result.
        made: versions, durations and so on: names and values.
        notes: further notes.
    """

    kind: str
    title: str
    subtitle: str = ""
    sections: Sequence[Section] = ()
    stack: Sequence[Mapping[str, str]] = ()
    answer: str = ""
    why: Sequence[str] = ()
    given_up: Sequence[str] = ()
    progress: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    made: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()

    @property
    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [figure for section in self.sections for figure in section.figures]

    @property
    def printable(self) -> list[Figure]:
        """All figures, and the drawing of the layers as one."""
        return [*([stack_figure(self.stack, self.answer)] if self.stack else []), *self.figures]


def render(page: Page, *, state: str | None = None) -> str:
    """Return the page as HTML.

    Args:
        page: content of the page.
        state: state of the folder before it was read, for a live page, which reloads when the state changes.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    figures = page.figures
    vega = _vega() if figures else ""
    script = _read("page.js") + (_read("watch.js") if state else "")
    numbers = {id(figure): number for number, figure in enumerate(figures)}
    content = {name: getattr(page, name) for name in page.__dataclass_fields__ if name != "sections"}
    html: str = environment.get_template("page.html").render(
        **content,
        sections=[_section(section, numbers) for section in page.sections],
        contents=[(section.anchor, section.name) for section in page.sections] + [("made", "How it was made")],
        figures=Markup(_data(figures)) if figures else "",  # noqa: S704 (JSON without any <)
        vega=Markup(vega),  # noqa: S704 (the library's own text)
        script=Markup(script),  # noqa: S704 (ours)
        style=Markup(_read("style.css")),  # noqa: S704 (ours)
        policy=_policy([vega, script] if figures else [script], watch=state is not None),
        state=state,
    )
    return html


def _policy(scripts: Iterable[str], *, watch: bool) -> str:
    """Return the policy: the browser may run these scripts, and load nothing from elsewhere."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    ask = "; connect-src 'self'" if watch else ""
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'{ask}; base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # The text must not contain the end of its own element.
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--").replace("\r\n", "\n")


def _data(figures: Sequence[Figure]) -> str:
    """Return specifications and themes as JSON that cannot end its element."""
    content = {
        "specs": [figure.spec for figure in figures],
        "themes": {name: config(name) for name in ("light", "dark")},
    }
    return json.dumps(content, allow_nan=False).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


# Tables --------------------------------------------------------------------------------------------------------------


def _section(section: Section, numbers: Mapping[int, int]) -> dict[str, Any]:
    return {
        "name": section.name,
        "anchor": section.anchor,
        "text": section.text,
        "legend": section.legend,
        "figures": [_figure(figure, numbers[id(figure)]) for figure in section.figures],
        "tables": [
            {"title": table.title, "notes": table.notes, **_without_the_same(table.columns, table.rows[:_MOST_ROWS]),
             "left_out": max(0, len(table.rows) - _MOST_ROWS), "name": table.name}
            for table in section.tables
        ],
    }  # fmt: skip


def _figure(figure: Figure, number: int) -> dict[str, Any]:
    columns = shown_columns(figure.rows)
    shown = [[row.get(name) for name in columns] for row in figure.rows[:_MOST_ROWS]]
    return {
        "anchor": f"figure-{figure.name}",
        "number": number,
        "title": figure.title,
        "alt": figure.alt,
        "paper": figure.paper,
        "notes": figure.notes,
        "count": len(figure.rows),
        **_without_the_same(columns, shown),
        "left_out": len(figure.rows) - len(shown),
    }


def _without_the_same(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a table without the columns that are constant; their values are in `same`."""
    constant = [
        column for column, cell in enumerate(rows[0] if len(rows) > 1 else ())
        if not isinstance(cell, float) and all(row[column] == cell for row in rows)  # results stay in the table
    ]  # fmt: skip
    if len(constant) == len(columns):  # identical rows are shown as they are
        constant = []
    same = [f"{columns[i]} {_shown(rows[0][i])}" for i in constant if rows[0][i] not in (None, "")]
    kept = [column for column in range(len(columns)) if column not in constant]
    listed = _listed([columns[i] for i in kept], [[row[i] for i in kept] for row in rows])
    return {"same": "; ".join(same), **listed}


def _listed(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return headings and cells with the kind of each column: numbers, words, or long texts, which are wrapped."""
    kinds = []
    for column in range(len(columns)):
        words = [row[column] for row in rows if isinstance(row[column], str) and not _NUMBER.fullmatch(row[column])]
        kinds.append("" if not words else "long" if max(map(len, words)) > _WRAPPED else "word")
    return {
        "columns": [{"name": name, "kind": kind} for name, kind in zip(columns, kinds, strict=True)],
        "lines": [
            [{"shown": _shown(cell), "kind": kind} for cell, kind in zip(row, kinds, strict=True)] for row in rows
        ],
    }


def _shown(cell: Any) -> str:
    text = cell_in_words(cell)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
