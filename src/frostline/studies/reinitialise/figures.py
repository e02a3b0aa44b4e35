"""What is drawn of the study of new layers; which figures there are follows from the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case
from frostline.charts.draw import lines, strip
from frostline.charts.theme import GREY
from frostline.charts.words import BANDS, POINTS, clip_intervals, format_range, informative_rows, note_left_out
from frostline.tasks.metrics import METRICS

_BLUES = ("#7fb8dc", "#3d8fc4", "#0072b2", "#004a75")
_MOST = 0.9  # of what all pretrained layers give
_PROBE = "probe"
_ENDS = {"full": "all pretrained", "all new": "all new"}  # what all other arms lie between


def figures(results: Results) -> list[Figure]:
    """Curves over the layers kept, or blocks and single layers; single trials; losses."""
    measured = _measured(results)
    kept = [row for row in measured if row["kept"] is not None]
    blocks = [row for row in measured if row["first"] is not None]
    found = []
    if kept:
        found += [_kept(kept, results.rows("probing"), results.options), _trials(results.rows("trials"))]
    if blocks:
        ends = [row for row in measured if row["first"] is None]
        found.append(_blocks(blocks, ends, preserved=results.options.get("mode") == "preserved"))
    return [*found, _losses(results.rows("losses"))]


def _measured(results: Results) -> list[dict[str, Any]]:
    """The arms of all sizes, small ones first; sizes beyond the task's rows are the same trials and count once."""
    names = [name for name in results.tables if name == "quality" or name.startswith("quality-")]
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in (row for name in names for row in results.rows(name)):
        if row["mean"] is not None:
            found.setdefault(tuple(row[key] for key in ("encoder", "task", "rows", "arm")), row)
    return sorted(found.values(), key=lambda row: row["rows"])


def _case(row: Row, rows: Sequence[Row]) -> str:
    """Encoder, task and number of training rows, as far as they differ."""
    size = f"{row['rows']} rows" if len({one["rows"] for one in rows}) > 1 else ""
    return ", ".join(part for part in (name_case(row, rows, "encoder", "task"), size) if part)


# Layers kept ---------------------------------------------------------------------------------------------------------


def _kept(rows: Sequence[Row], probing: Sequence[Row], options: Mapping[str, Any]) -> Figure:
    wanted = ("encoder", "task", "kept", "seeds", "mean", "low", "high")
    whole = [
        {"case": name_case(row, rows, "encoder", "task"), "curve": f"{row['rows']} rows", "method": "fine-tuning",
         **{key: row[key] for key in wanted}}
        for row in rows
    ]  # fmt: skip
    drawn, cut = clip_intervals(whole, "mean", "low", "high", note=BANDS, panel="case", limits=POINTS)
    scale = METRICS[rows[0]["metric"]].points if rows else 100
    probes = {(row["encoder"], row["task"], row["layer"]): row["probe"] for row in probing if row["probe"] is not None}
    for (encoder, task, layer), probe in probes.items():
        said = {"encoder": encoder, "task": task}
        drawn.append({"case": name_case(said, rows, "encoder", "task"), "curve": _PROBE, "method": "probing", **said,
                      "kept": layer, "mean": scale * probe})  # fmt: skip
    notes = ["the probe reads the pretrained layer as it is, with up to 5,000 training rows"] if probes else []
    return Figure(
        name="kept",
        title=_needed(informative_rows(rows)),
        alt="Curves of quality over the number of pretrained layers that are kept, one for each number of training "
        "rows with its 95% interval over seeds, and the linear probe on each layer as a dashed curve",
        spec=lines(drawn, "kept", "mean", x_title="pretrained layers kept; all above are new",
                   y_title="quality in points", colour="curve", colours={_PROBE: GREY, **_shades(rows)}, dash="method",
                   interval=("shown_low", "shown_high"), panel="case", independent=True),
        rows=tuple(drawn),
        paper=_variant(options),
        notes=(*notes, *cut, *note_left_out(rows)),
    )  # fmt: skip


def _variant(options: Mapping[str, Any]) -> str:
    """The paper's figure: a higher rate for new layers and kept norms have their own, both together have none."""
    number = {(False, False): 2, (True, False): 7, (False, True): 8}.get(
        (options.get("new_layer_rate", 1.0) != 1, bool(options.get("keep_norms")))
    )
    return f"paper 3, figure {number}" if number else "paper 3"


def _shades(rows: Sequence[Row]) -> dict[str, str]:
    """The more training rows, the darker the curve."""
    sizes = sorted({row["rows"] for row in rows})
    step = (len(_BLUES) - 1) / max(1, len(sizes) - 1)
    return {f"{size} rows": _BLUES[-1 if len(sizes) == 1 else round(place * step)] for place, size in enumerate(sizes)}


def _needed(rows: Sequence[Row]) -> str:
    """How many pretrained layers give most of what all of them give, for each number of training rows."""
    said = []
    for (size,), group in group_rows(rows, "rows"):
        counts = [
            (count, depth) for _, curve in group_rows(group, "encoder", "task") for count, depth in _enough(curve)
        ]
        if counts:
            needed, depths = zip(*counts, strict=True)
            said.append(f"{format_range(needed)} of {format_range(depths)} with {size} rows")
    if not said:
        return "Quality by the number of pretrained layers that are kept"
    return f"Pretrained layers that give {_MOST:.0%} of what all give: {', '.join(said)}"


def _enough(curve: Sequence[Row]) -> list[tuple[int, int]]:
    """The fewest layers that give most of the gain, and how many there are; nothing where there is no gain."""
    means = {row["kept"]: row["mean"] for row in curve}
    depth = next((row["kept"] for row in curve if row["arm"] == "full"), 0)
    if not {0, depth} <= means.keys() or means[depth] <= means[0]:
        return []
    goal = means[0] + _MOST * (means[depth] - means[0])
    return [(min(kept for kept, mean in means.items() if mean >= goal), depth)]


def _trials(rows: Sequence[Row]) -> Figure:
    """The trials with the fewest rows: that is where they differ most."""
    fewest = {case: min(row["rows"] for row in group) for case, group in group_rows(rows, "encoder", "task")}
    few = [row for row in rows if row["rows"] == fewest[row["encoder"], row["task"]] and row["kept"] is not None]
    if all(len(group) == 1 for _, group in group_rows(few, "encoder", "task", "kept")):
        few = []  # the curves show them already
    drawn = [{"case": _case(row, few), **row} for row in few]
    return Figure(
        name="trials",
        title=_widest(few),
        alt="A point for the quality of each trial over the number of pretrained layers kept, the means dashed",
        spec=strip(drawn, "kept", "quality", x_title="pretrained layers kept; all above are new",
                   y_title="quality in points", panel="case", mean=True),
        rows=tuple(drawn),
        paper="paper 3, figure 5",
        notes=("every trial has its own training rows, start and order",),
    )  # fmt: skip


def _widest(rows: Sequence[Row]) -> str:
    """Where trials that differ in their seed alone lie furthest apart."""
    ranges: dict[int, float] = {}
    for (_, _, kept), group in group_rows(rows, "encoder", "task", "kept"):
        values = [row["quality"] for row in group]
        if len(values) > 1:
            ranges[kept] = max(ranges.get(kept, 0.0), max(values) - min(values))
    if not ranges:
        return "Single trials by the number of pretrained layers that are kept"
    kept = max(ranges, key=lambda one: ranges[one])
    layers = "1 layer" if kept == 1 else f"{kept} layers"
    return f"Trials that differ in their seed alone lie up to {ranges[kept]:.1f} points apart, with {layers} kept"


# Blocks --------------------------------------------------------------------------------------------------------------


def _blocks(rows: Sequence[Row], ends: Sequence[Row], *, preserved: bool) -> Figure:
    """Blocks or single layers that are new, or the only ones that are not, between the two ends."""
    single = all(row["first"] == row["last"] for row in rows)
    wanted = ("encoder", "task", "rows", "arm", "first", "last", "seeds", "mean", "low", "high", "minus_full")
    whole = [{"case": _case(row, rows), **{key: row[key] for key in wanted}} for row in rows]
    drawn, cut = clip_intervals(whole, "mean", "low", "high", note=BANDS, panel="case", limits=POINTS)
    levels = [{"case": _case(row, rows), "level": row["mean"], "name": _ENDS[row["arm"]]} for row in ends]
    what = "layer" if single else "block"
    state = "the only pretrained one" if preserved else "new"
    return Figure(
        name="preserved" if preserved else "single" if single else "blocks",
        title=_preserved(informative_rows(rows), ends) if preserved else _replaced(informative_rows(rows), what),
        alt=f"Curve of quality over the place of the {what} that is {state}, with 95% intervals over seeds, and lines "
        "for the intact encoder and for one whose layers are all new",
        spec=lines(drawn, "first", "mean",
                   x_title=f"layer that is {state}" if single else f"lowest layer of the block that is {state}",
                   y_title="quality in points", interval=("shown_low", "shown_high"), panel="case", levels=levels,
                   independent=True),
        rows=tuple(drawn),
        paper="paper 3, figure 6" if single and not preserved else "paper 3, figure 3",
        notes=(*cut, *note_left_out(rows)),
    )  # fmt: skip


def _replaced(rows: Sequence[Row], what: str) -> str:
    """Which new layers cost most, on average over encoders and tasks."""
    lost = _by_span([row | {"lost": -row["minus_full"]} for row in map(dict, rows) if row["minus_full"] is not None],
                    "lost")  # fmt: skip
    if not lost:
        return f"Quality by the {what} that is new"
    worst, *rest = sorted(lost, key=lambda span: -lost[span])
    if lost[worst] <= 0:
        return f"No new {what} costs anything, on average"
    subject = f"A new layer {worst} costs" if what == "layer" else f"New layers {worst} cost"
    others = f"; any other {what} costs at most {max(lost[rest[0]], 0):.1f}" if rest else ""
    average = " on average" if len({_key(row) for row in rows}) > 1 else ""
    return f"{subject} most, {lost[worst]:.1f} points{average}{others}"


def _preserved(rows: Sequence[Row], ends: Sequence[Row]) -> str:
    """Which layers are worth most when they alone are pretrained, on average over encoders and tasks."""
    new = {_key(row): row["mean"] for row in ends if row["arm"] == "all new"}
    gained = _by_span([dict(row) | {"gained": row["mean"] - new[_key(row)]} for row in rows if _key(row) in new],
                      "gained")  # fmt: skip
    if not gained:
        return "Quality by the only layers that are pretrained"
    best = max(gained, key=lambda span: gained[span])
    if gained[best] <= 0:
        return "No pretrained layers alone are better than none, on average"
    return f"Layers {best} alone are worth most, {gained[best]:.1f} points more than no pretrained layer"


def _key(row: Row) -> tuple[Any, ...]:
    return row["encoder"], row["task"], row["rows"]


def _by_span(rows: Sequence[Row], column: str) -> Mapping[str, float]:
    """The mean of a column for each span of layers."""
    return {
        str(first) if first == last else f"{first}..{last}": sum(row[column] for row in group) / len(group)
        for (first, last), group in group_rows(rows, "first", "last")
    }


# Losses --------------------------------------------------------------------------------------------------------------


def _losses(rows: Sequence[Row]) -> Figure:
    """Losses of the intact encoder, of one with new layers alone and of the arm in the middle, as the paper tracks."""
    known = [row for row in rows if row["mean"] is not None]
    others = [arm for (arm,), _ in group_rows(known, "arm") if arm not in _ENDS]
    chosen = _ENDS | {arm: arm for arm in others[len(others) // 2 :][:1]}
    whole = [{"case": _case(row, known), **row, "arm": chosen[row["arm"]]} for row in known if row["arm"] in chosen]
    drawn, cut = clip_intervals(whole, "mean", "low", "high", note=BANDS, panel="case")
    return Figure(
        name="losses",
        title=_gap(known),
        alt="Curves of the validation loss over epochs for the intact encoder, for one whose layers are all new and "
        "for one in between, with 95% intervals over seeds",
        spec=lines(drawn, "epoch", "mean", x_title="epoch", y_title="validation loss", colour="arm",
                   interval=("shown_low", "shown_high"), panel="case", independent=True),
        rows=tuple(drawn),
        notes=("the paper tracks these losses in its appendix E", *cut),
    )  # fmt: skip


def _gap(rows: Sequence[Row]) -> str:
    """How far the losses of new and of pretrained layers lie apart at the first and at the last epoch."""
    gaps: dict[int, list[float]] = {}
    for (_, _, _, epoch), group in group_rows(rows, "encoder", "task", "rows", "epoch"):
        means = {row["arm"]: row["mean"] for row in group}
        if {"full", "all new"} <= means.keys():
            gaps.setdefault(epoch, []).append(means["all new"] - means["full"])
    if len(gaps) < 2:
        return "Validation loss by what is pretrained"
    first, last = (sum(gaps[one]) / len(gaps[one]) for one in (min(gaps), max(gaps)))
    return (
        f"The validation loss of new layers is {_more(first)} than of pretrained ones at first, {_more(last)} at last"
    )


def _more(gap: float) -> str:
    return f"{abs(gap):.2f} {'higher' if gap >= 0 else 'lower'}"
