"""Figures of new layers; the rows decide which figures there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frostline.charts import Figure, Results, Row, group_rows, name_case, pick_columns
from frostline.charts.draw import lines, strip
from frostline.charts.theme import GREY, spread_colours
from frostline.charts.words import BANDS, POINTS, clip_intervals, format_range, informative_rows, note_left_out
from frostline.tasks.metrics import METRICS

_BLUES = ("#7fb8dc", "#3d8fc4", "#0072b2", "#004a75")
_MOST = 0.9  # share of the gain from all pretrained layers
_PROBE = "probe"
_ENDS = {"full": "all pretrained", "all new": "all new"}  # the two ends that other arms lie between


def figures(results: Results) -> list[Figure]:
    """Return curves over the kept layers, or blocks and single layers; single trials; losses."""
    measured = _measured(results)
    kept = [row for row in measured if row["kept"] is not None]
    blocks = [row for row in measured if row["first"] is not None]
    ends = [row for row in measured if row["arm"] in _ENDS]
    return [
        _kept(kept, results.rows("probing"), results.options),
        _trials(results.rows("trials")),
        _blocks(blocks, ends, preserved=results.options.get("mode") == "preserved"),
        _losses(results.rows("losses")),
    ]


def _measured(results: Results) -> list[Row]:
    """Return the arms of all sizes, small ones first; sizes beyond the task's rows are the same trials, once."""
    names = [name for name in results.tables if name == "quality" or name.startswith("quality-")]
    rows = [row for name in names for row in results.rows(name) if row["mean"] is not None]
    unique = [group[0] for _, group in group_rows(rows, "encoder", "task", "rows", "arm")]
    return sorted(unique, key=lambda row: int(row["rows"]))


def _case(row: Row, rows: Sequence[Row]) -> str:
    """Return encoder, task and number of training rows, those that differ."""
    size = f"{row['rows']} rows" if len({other["rows"] for other in rows}) > 1 else ""
    return ", ".join(part for part in (name_case(row, rows, "encoder", "task"), size) if part)


# Kept layers ---------------------------------------------------------------------------------------------------------


def _kept(rows: Sequence[Row], probing: Sequence[Row], options: Mapping[str, Any]) -> Figure:
    curves = [{**row, "curve": f"{row['rows']} rows", "method": "fine-tuning"} for row in rows]
    tuned = pick_columns(curves, "curve", "method", "encoder", "task", "kept", "seeds", "mean", "low", "high",
                         case="case")  # fmt: skip
    drawn, clipped = clip_intervals(tuned, "mean", "low", "high", note=BANDS, panel="case", limits=POINTS)
    scale = METRICS[rows[0]["metric"]].points if rows else 100
    probes = {(row["encoder"], row["task"], row["layer"]): row for row in probing if row["probe"] is not None}
    for (encoder, task, layer), row in probes.items():
        case = {"encoder": encoder, "task": task}
        ends = {f"{kind}{end}": scale * row[f"probe_{end}"] for kind in ("", "shown_") for end in ("low", "high")
                if row.get(f"probe_{end}") is not None}  # fmt: skip
        drawn.append({"case": name_case(case, rows, "encoder", "task"), "curve": _PROBE, "method": "probing", **case,
                      "kept": layer, "mean": scale * row["probe"], **ends})  # fmt: skip
    notes = _notes_on_probes(list(probes.values()), options)
    return Figure(
        name="kept",
        title=_title_of_kept(informative_rows(rows)),
        alt="Curves of quality over the number of pretrained layers that are kept, one for each number of training "
        "rows with its 95% interval over seeds, and the linear probe on each layer as a dashed curve",
        spec=lines(drawn, "kept", "mean", x_title="pretrained layers kept; all above are new",
                   y_title="quality in points", colour="curve", colours={_PROBE: GREY, **_shades(rows)}, dash="method",
                   interval=("shown_low", "shown_high"), panel="case", independent=True),
        rows=tuple(drawn),
        paper=_variant(options),
        notes=(*notes, *clipped, *note_left_out(rows)),
    )  # fmt: skip


def _notes_on_probes(rows: Sequence[Row], options: Mapping[str, Any]) -> list[str]:
    """Return what the probe reads; studies of earlier versions have no column of its training rows."""
    counts = sorted({row["probe_examples"] for row in rows if row.get("probe_examples") is not None})
    if not counts:
        return ["the probe reads the pretrained layer without tuning, with up to 5,000 training rows"] if rows else []
    what = (
        "the first token through the frozen pretrained pooler" if options.get("as_released") else "the mean of tokens"
    )
    return [f"the probe reads {what} of the pretrained layer, without tuning, and is trained on {format_range(counts)} "
            "rows; its band: 95% interval over trials"]  # fmt: skip


def _variant(options: Mapping[str, Any]) -> str:
    """Return the paper's figure: a higher rate for new layers and kept norms have their own, both together none."""
    number = {(False, False): 2, (True, False): 7, (False, True): 8}.get(
        (options.get("new_layer_rate", 1.0) != 1, bool(options.get("keep_norms")))
    )
    return f"Tamkin et al. 2020, figure {number}" if number else "Tamkin et al. 2020"


def _shades(rows: Sequence[Row]) -> dict[str, str]:
    """Return the colours of curves: darker with more training rows."""
    sizes = sorted({row["rows"] for row in rows})
    return spread_colours([f"{size} rows" for size in sizes], _BLUES if len(sizes) > 1 else _BLUES[-1:])


def _title_of_kept(rows: Sequence[Row]) -> str:
    """Return how many pretrained layers give most of the gain from all of them, by the number of training rows."""
    words = []
    for (size,), group in group_rows(rows, "rows"):
        counts = [
            (count, depth) for _, curve in group_rows(group, "encoder", "task") for count, depth in _enough(curve)
        ]
        if counts:
            needed, depths = zip(*counts, strict=True)
            words.append(f"{format_range(needed)} of {format_range(depths)} with {size} rows")
    if not words:
        return "Quality by the number of kept pretrained layers"
    return f"Pretrained layers needed for {_MOST:.0%} of the gain from all: {', '.join(words)}"


def _enough(curve: Sequence[Row]) -> list[tuple[int, int]]:
    """Return the fewest layers that give most of the gain and the number of layers, as a list; empty without a gain."""
    means = {row["kept"]: row["mean"] for row in curve}
    depth = next((row["kept"] for row in curve if row["arm"] == "full"), 0)
    if not {0, depth} <= means.keys() or means[depth] <= means[0]:
        return []
    goal = means[0] + _MOST * (means[depth] - means[0])
    return [(min(kept for kept, mean in means.items() if mean >= goal), depth)]


def _trials(rows: Sequence[Row]) -> Figure:
    """Return the trials with the fewest rows, which differ most."""
    fewest = {case: min(row["rows"] for row in group) for case, group in group_rows(rows, "encoder", "task")}
    few = [row for row in rows if row["rows"] == fewest[row["encoder"], row["task"]] and row["kept"] is not None]
    if all(len(group) == 1 for _, group in group_rows(few, "encoder", "task", "kept")):
        few = []  # the curves show them already
    drawn = [{"case": _case(row, few), **row} for row in few]
    return Figure(
        name="trials",
        title=_title_of_trials(few),
        alt="Points of the quality of each trial over the number of kept pretrained layers, with their means dashed",
        spec=strip(drawn, "kept", "quality", x_title="pretrained layers kept; all above are new",
                   y_title="quality in points", panel="case", mean=True),
        rows=tuple(drawn),
        paper="Tamkin et al. 2020, figure 5",
        notes=("every trial has its own training rows, initial head and order of rows",),
    )  # fmt: skip


def _title_of_trials(rows: Sequence[Row]) -> str:
    """Return the largest difference between trials that differ only in their seed."""
    ranges: dict[int, float] = {}
    for (_, _, kept), group in group_rows(rows, "encoder", "task", "kept"):
        values = [row["quality"] for row in group]
        if len(values) > 1:
            ranges[kept] = max(ranges.get(kept, 0.0), max(values) - min(values))
    if not ranges:
        return "Single trials by the number of kept pretrained layers"
    kept = max(ranges, key=lambda count: ranges[count])
    layers = "1 layer" if kept == 1 else f"{kept} layers"
    return f"Trials that differ only in their seed are up to {ranges[kept]:.1f} points apart, with {layers} kept"


# Blocks --------------------------------------------------------------------------------------------------------------


def _blocks(rows: Sequence[Row], ends: Sequence[Row], *, preserved: bool) -> Figure:
    """Return the quality with a new block or layer, or with only that one pretrained, between the two ends."""
    single = all(row["first"] == row["last"] for row in rows)
    cases = pick_columns([{"case": _case(row, rows), **row} for row in rows], "case", "encoder", "task", "rows", "arm",
                         "first", "last", "seeds", "mean", "low", "high", "minus_full")  # fmt: skip
    drawn, clipped = clip_intervals(cases, "mean", "low", "high", note=BANDS, panel="case", limits=POINTS)
    levels = [{"case": _case(row, rows), "level": row["mean"], "name": _ENDS[row["arm"]]} for row in ends]
    counted, what = informative_rows(rows), "layer" if single else "block"
    state = "the only pretrained one" if preserved else "new"
    return Figure(
        name="preserved" if preserved else "single" if single else "blocks",
        title=_title_of_preserved(counted, ends) if preserved else _title_of_new(counted, what),
        alt=f"Curve of quality over the position of the {what} that is {state}, with 95% intervals over seeds, and "
        "lines for the intact encoder and for one whose layers are all new",
        spec=lines(drawn, "first", "mean",
                   x_title=f"layer that is {state}" if single else f"lowest layer of the block that is {state}",
                   y_title="quality in points", interval=("shown_low", "shown_high"), panel="case", levels=levels,
                   independent=True),
        rows=tuple(drawn),
        paper=f"Tamkin et al. 2020, figure {6 if single and not preserved else 3}",
        notes=(*clipped, *note_left_out(rows)),
    )  # fmt: skip


def _title_of_new(rows: Sequence[Row], what: str) -> str:
    """Return which new layers cost most, on average over encoders and tasks."""
    lost = _mean_by_span([(row, -row["minus_full"]) for row in rows if row["minus_full"] is not None])
    if not lost:
        return f"Quality by the new {what}"
    worst, *others = sorted(lost, key=lambda span: -lost[span])
    if lost[worst] <= 0:
        return f"No new {what} costs quality, on average"
    subject = f"A new layer {worst} costs" if what == "layer" else f"New layers {worst} cost"
    next_worst = f"; any other {what} costs at most {max(lost[others[0]], 0):.1f}" if others else ""
    average = " on average" if len({_key(row) for row in rows}) > 1 else ""
    return f"{subject} most, {lost[worst]:.1f} points{average}{next_worst}"


def _title_of_preserved(rows: Sequence[Row], ends: Sequence[Row]) -> str:
    """Return which layers help most when they alone are pretrained, on average over encoders and tasks."""
    new = {_key(row): row["mean"] for row in ends if row["arm"] == "all new"}
    gained = _mean_by_span([(row, row["mean"] - new[_key(row)]) for row in rows if _key(row) in new])
    if not gained:
        return "Quality by the only pretrained layers"
    best = max(gained, key=lambda span: gained[span])
    if gained[best] <= 0:
        return "No block of pretrained layers alone is better than none, on average"
    return f"Layers {best} alone help most, by {gained[best]:.1f} points over no pretrained layer"


def _key(row: Row) -> tuple[Any, ...]:
    return row["encoder"], row["task"], row["rows"]


def _mean_by_span(values: Sequence[tuple[Row, float]]) -> Mapping[str, float]:
    """Return the mean value for each span of layers."""
    rows = [{**row, "value": value} for row, value in values]
    return {
        str(first) if first == last else f"{first}..{last}": sum(row["value"] for row in group) / len(group)
        for (first, last), group in group_rows(rows, "first", "last")
    }


# Losses --------------------------------------------------------------------------------------------------------------


def _losses(rows: Sequence[Row]) -> Figure:
    """Return the losses of the intact encoder, of one with all layers new and of the arm in the middle."""
    defined = [row for row in rows if row["mean"] is not None]
    others = [arm for (arm,), _ in group_rows(defined, "arm") if arm not in _ENDS]
    chosen = _ENDS | {arm: arm for arm in others[len(others) // 2 :][:1]}
    cases = [{"case": _case(row, defined), **row, "arm": chosen[row["arm"]]} for row in defined if row["arm"] in chosen]
    drawn, clipped = clip_intervals(cases, "mean", "low", "high", note=BANDS, panel="case")
    return Figure(
        name="losses",
        title=_title_of_losses(defined),
        alt="Curves of the validation loss over epochs for the intact encoder, for one whose layers are all new and "
        "for one in between, with 95% intervals over seeds",
        spec=lines(drawn, "epoch", "mean", x_title="epoch", y_title="validation loss", colour="arm",
                   interval=("shown_low", "shown_high"), panel="case", independent=True),
        rows=tuple(drawn),
        notes=("Tamkin et al. 2020 show these losses in appendix E", *clipped),
    )  # fmt: skip


def _title_of_losses(rows: Sequence[Row]) -> str:
    """Return the difference between the losses of new and of pretrained layers at the first and the last epoch."""
    gaps: dict[int, list[float]] = {}
    for (_, _, _, epoch), group in group_rows(rows, "encoder", "task", "rows", "epoch"):
        means = {row["arm"]: row["mean"] for row in group}
        if {"full", "all new"} <= means.keys():
            gaps.setdefault(epoch, []).append(means["all new"] - means["full"])
    if len(gaps) < 2:
        return "Validation loss by the pretrained layers"
    ends = [sum(gaps[epoch]) / len(gaps[epoch]) for epoch in (min(gaps), max(gaps))]
    first, last = (f"{abs(gap):.2f} {'higher' if gap >= 0 else 'lower'}" for gap in ends)
    return f"The validation loss of new layers is {first} than that of pretrained ones at first, {last} at the end"
