"""What matters of a figure as a few lines of text: what it claims, what it draws, and the values behind it.

Colours, sizes and the way in which Altair nests a specification are left out, so a new theme or a new Altair changes
nothing here; a changed title, mark, field, axis, filter or value does.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair
import vl_convert

from frostline.charts import Figure
from frostline.charts.theme import config

_TYPES = {"quantitative": "Q", "nominal": "N", "ordinal": "O", "temporal": "T"}


def check_figures(figures: Sequence[Figure], path: Path) -> None:
    """Fail unless the figures are valid and their facts are those of the file; FROSTLINE_WRITE_GOLDEN=1 writes it.

    Look at the figures and at the difference before a file that was written anew is committed.
    """
    for figure in figures:
        check_valid(figure)
    written = "\n".join(facts(figure) for figure in figures)
    if os.environ.get("FROSTLINE_WRITE_GOLDEN"):
        path.write_text(written)
    expected = path.read_text()
    difference = difflib.unified_diff(expected.splitlines(), written.splitlines(), str(path), "drawn", lineterm="", n=1)
    assert written == expected, "\n".join(difference)


def check_valid(figure: Figure) -> None:
    """Fail unless Altair's schema accepts the specification and Vega-Lite draws marks from it."""
    altair.Chart.from_dict(dict(figure.spec), validate=True)
    assert vl_convert.vegalite_to_vega({**figure.spec, "config": config()})["marks"]


def facts(figure: Figure) -> str:
    """The facts of a figure, a line each."""
    drawn = list(_marks(figure.spec))
    lines = [f"== {figure.name}: {figure.title}", f"alt: {figure.alt}"]
    lines += [f"paper: {figure.paper}"] * bool(figure.paper)
    lines += [f"note: {note}" for note in figure.notes]
    lines += _panels(figure.spec)
    lines += [f"axes: {_titles([encoding for _, encoding in drawn])}"]
    lines += [f"{mark}: {' '.join(_channels(encoding))}".rstrip() for mark, encoding in drawn]
    lines += list(dict.fromkeys(f"hover: {_hover(encoding)}" for _, encoding in drawn if "tooltip" in encoding))
    lines += [_counts(figure), f"sums: {_sums(_data(figure.spec))}", *_groups(figure.spec, drawn)]
    lines += [f"last row: {_row(figure.rows[-1])}"]
    return "\n".join(lines) + "\n"


def _marks(
    spec: Mapping[str, Any], encoding: Mapping[str, Any] | None = None, where: tuple[str, ...] = ()
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mark of a specification with what it encodes, that of the charts around it included."""
    encoding = {**(encoding or {}), **spec.get("encoding", {})}
    where += tuple(
        " ".join(f"{key} {value}" for key, value in sorted(step.items())) for step in spec.get("transform", ())
    )
    if "mark" in spec:
        mark = spec["mark"] if isinstance(spec["mark"], str) else spec["mark"]["type"]
        yield ", ".join((mark, *where)), encoding
    for key in ("layer", "hconcat", "vconcat", "concat"):
        for part in spec.get(key, ()):
            yield from _marks(part, encoding, where)
    if "spec" in spec:
        yield from _marks(spec["spec"], encoding, where)


def _panels(spec: Mapping[str, Any]) -> list[str]:
    facet = spec.get("facet")
    if facet is None:
        return []
    own = sorted(axis for axis, how in spec.get("resolve", {}).get("scale", {}).items() if how == "independent")
    names = dict.fromkeys(str(row.get(facet["field"])) for row in _data(spec))
    return [f"panels: {facet['field']} ({'; '.join(names)}){f', own {chr(38).join(own)}' if own else ''}"]


def _titles(encodings: Sequence[Mapping[str, Any]]) -> str:
    """The title of every field along a channel, such as "x=layer 'layer'"; both ends of an interval share one."""
    titles = dict.fromkeys(
        f"{channel}={how['field']} {how['title']!r}"
        for encoding in encodings
        for channel, how in sorted(encoding.items())
        if f"{channel}2" not in encoding and isinstance(how, Mapping) and how.get("title")
    )
    return ", ".join(titles)


def _channels(encoding: Mapping[str, Any]) -> list[str]:
    """What each channel shows, such as 'x=layer:Q'; constants such as colours are left out."""
    return [
        f"{channel}={_field(how)}{_order(how)}"
        for channel, how in sorted(encoding.items())
        if channel != "tooltip" and "field" in how
    ]


def _field(how: Mapping[str, Any]) -> str:
    name = f"{how['aggregate']}({how['field']})" if "aggregate" in how else how["field"]
    return f"{name}:{_TYPES[how['type']]}" if "type" in how else str(name)


def _order(how: Mapping[str, Any]) -> str:
    """What decides where a value lies: the order, the ends and the middle of a scale."""
    scale = how.get("scale") or {}
    ends = scale.get("domain", ())
    said = [
        "descending" if how.get("sort") == "descending" else "",
        "reversed" if scale.get("reverse") else "",
        f"{ends[0]:g}..{ends[1]:g}" if len(ends) == 2 and not any(isinstance(end, str | bool) for end in ends) else "",
        f"around {scale['domainMid']:g}" if "domainMid" in scale else "",
    ]
    return f"[{', '.join(filter(None, said))}]" if any(said) else ""


def _hover(encoding: Mapping[str, Any]) -> str:
    hover = encoding["tooltip"]
    return " ".join(str(how["field"]) for how in (hover if isinstance(hover, list) else [hover]))


def _data(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    data = spec["data"]
    return list(data["values"] if "values" in data else spec["datasets"][data["name"]])


def _counts(figure: Figure) -> str:
    drawn = _data(figure.spec)
    missing = [row for row in figure.rows if row not in drawn]
    assert not missing, f"{figure.name}: the table behind the figure has rows that are not drawn: {missing[:2]}"
    others = len(drawn) - len(figure.rows)
    return f"rows: {len(figure.rows)}{f', {others} more for lines and shapes' if others else ''}"


def _sums(rows: Sequence[Mapping[str, Any]]) -> str:
    """The sum of every column of numbers, so that any changed value is seen."""
    return _row({name: sum(values) for name, values in _columns(rows).items() if _are_numbers(values)})


def _groups(spec: Mapping[str, Any], drawn: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """How often the words of each encoded column occur."""
    encoded = {how.get("field") for _, encoding in drawn for name, how in encoding.items() if name != "tooltip"}
    groups = [
        f"{name} ({_words(values)})"
        for name, values in _columns(_data(spec)).items()
        if name in encoded and not _are_numbers(values)
    ]
    return [f"groups: {'; '.join(groups)}"] if groups else []


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row[name] for row in rows if row.get(name) is not None] for name in names}


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _words(values: Sequence[Any]) -> str:
    counts = [f"{value} x{values.count(value)}" for value in dict.fromkeys(values)]
    return ", ".join(counts if len(counts) <= 6 else [*counts[:2], f"{len(counts) - 3} others", counts[-1]])


def _row(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_short(value)}" for name, value in row.items())


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
