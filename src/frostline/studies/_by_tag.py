"""Differences from full tuning by what tasks have in common: linguistic features and kinds of distribution shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frostline.charts import Figure, Results, Row, group_rows, pick_columns
from frostline.charts.draw import bars
from frostline.charts.words import clip_intervals
from frostline.records.table import Cell, Table, table_of
from frostline.studies import Ask, Measured
from frostline.studies._comparisons import pair_by_seed, paired_gaps
from frostline.studies._tables import group_points, is_informative, mean_columns, mean_of_known
from frostline.tasks import PRESETS, Task
from frostline.tasks.metrics import METRICS
from frostline.tasks.tags import TAGS, TagKind

# Names of figures and sections of the paper.
_FIGURES: Mapping[TagKind, tuple[str, str]] = {
    "linguistic feature": ("by-feature", "5.3.1"),
    "distribution shift": ("by-shift", "5.3.2"),
}


def tag_table(ask: Ask, points: Sequence[Measured], *, baseline: str = "full") -> list[Table]:
    """Return the mean difference from full tuning over the tasks with a tag, for each arm; no table without tags.

    A task counts by its mean over seeds. Metrics that are not in points of a hundred cannot be averaged with others,
    so tasks with such metrics are left out.
    """
    tagged = [task for task in ask.tasks if task.tags and METRICS[task.metrics[0]].points == 100]
    records = [record for (encoder,), group in group_points(points, ("encoder",)).items()
               for record in _of_encoder(encoder, tagged, group, baseline)]  # fmt: skip
    if not records:
        return []
    unplaced = [tag for tag in TAGS if not any(tag in preset.tags for _, preset in PRESETS.items())]
    return [
        table_of(
            "by_tag",
            "Difference from full tuning by linguistic feature and by kind of distribution shift, in points",
            records,
            notes=[
                "minus_full: mean over the tasks with the tag, each the mean of its seeds, with a 95% t-interval over "
                "tasks; none for a single task; informative: number of these tasks on which full tuning is shown to "
                "beat a constant answer",
                "a task can have several tags, so the rows are not independent",
                *([f"tags that are ours, not the paper's: {'; '.join(own)}"] if (own := _own_tags(tagged)) else []),
                *([f"the paper defines {', '.join(unplaced)} and places no task there"] if unplaced else []),
            ],
        )
    ]


def _of_encoder(
    encoder: str, tasks: Sequence[Task], points: Sequence[Measured], baseline: str
) -> list[Mapping[str, Cell]]:
    arms = group_points(points, ("task", "arm"))
    full = {task.name: arms.get((task.name, baseline), []) for task in tasks}
    learned = {task.name: is_informative(task, full[task.name]) for task in tasks}
    records: list[Mapping[str, Cell]] = []
    for tag, kind in TAGS.items():
        for arm in dict.fromkeys(arm for _, arm in arms if arm != baseline):
            pairs = {task.name: (task, pair_by_seed(arms.get((task.name, arm), []), full[task.name]))
                     for task in tasks if tag in task.tags}  # fmt: skip
            gaps = {name: mean_of_known(paired_gaps(*pair)) for name, pair in pairs.items()}
            names = [name for name, gap in gaps.items() if gap is not None]
            if names:
                records.append({"encoder": encoder, "kind": kind, "tag": tag, "arm": arm, "tasks": len(names),
                                "informative": sum(learned[name] for name in names),
                                **mean_columns("minus_full", list(gaps.values())),
                                "names": ", ".join(names)})  # fmt: skip
    return records


def _own_tags(tasks: Sequence[Task]) -> list[str]:
    """Return the tags that the paper does not give to a task, in words."""
    own = {task.name: PRESETS[task.preset].own_tags for task in tasks if task.preset is not None}
    return [f"{name} ({', '.join(tags)})" for name, tags in own.items() if tags]


def tag_figures(results: Results, *, colours: Mapping[str, str]) -> list[Figure]:
    """Return bars by linguistic feature and by kind of distribution shift; titles are about the first arm.

    Args:
        results: the study's results.
        colours: the arms to draw, with their colours.
    """
    rows = [row for arm in colours for row in results.rows("by_tag") if row["arm"] == arm]
    return [_figure([row for row in rows if row["kind"] == kind], name, kind, section, colours)
            for kind, (name, section) in _FIGURES.items()]  # fmt: skip


def _figure(rows: Sequence[Row], name: str, kind: str, section: str, colours: Mapping[str, str]) -> Figure:
    picked = pick_columns(rows, "encoder", "tag", "arm", "tasks", "informative", "minus_full", "minus_full_low",
                          "minus_full_high", "names")  # fmt: skip
    note = "whiskers: 95% intervals over tasks, none for a single task"
    drawn, notes = clip_intervals(picked, "minus_full", "minus_full_low", "minus_full_high", panel="encoder",
                                  from_zero=True, note=note)  # fmt: skip
    return Figure(
        name=name,
        title=_title(drawn, next(iter(colours)), kind) or f"Difference from tuning all layers by {kind}",
        alt=f"Bars of the mean difference from full fine-tuning in points for each {kind}, with 95% intervals over the "
        "tasks that have it",
        spec=bars(drawn, "tag", "minus_full", x_title="", y_title="points minus tuning all layers", colour="arm",
                  colours=colours, interval=("shown_low", "shown_high"), panel="encoder"),
        rows=tuple(drawn),
        paper=f"Lodha et al. 2023, section {section}",
        notes=notes,
    )  # fmt: skip


def _title(rows: Sequence[Row], arm: str, kind: str) -> str:
    """Return the tags with the lowest and the highest mean of the arm, for each encoder; empty if they are equal."""
    words = []
    groups = dict(group_rows([row for row in rows if row["arm"] == arm], "encoder"))
    for (encoder,), group in groups.items():
        ranked = sorted(group, key=lambda row: float(row["minus_full"]))
        if ranked[0]["minus_full"] < ranked[-1]["minus_full"]:
            low, high = (f"{row['minus_full']:+.1f} points ({row['tag']}, {_count(row['tasks'])})"
                         for row in (ranked[0], ranked[-1]))  # fmt: skip
            words.append(f"{low} to {high}{f' with {encoder}' if len(groups) > 1 else ''}")
    return f"By {kind}, tuning a few layers instead of all changes the mean by {'; by '.join(words)}" if words else ""


def _count(tasks: int) -> str:
    return f"{tasks} task{'' if tasks == 1 else 's'}"
