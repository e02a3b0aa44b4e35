"""What a study chose on validation rows; under the protocol 'paper' these are the rows that it reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from frostline.records import Recipe, TrialSpec
from frostline.records.table import group_by
from frostline.studies import Point

PROBE_EPOCH = "the epoch of the probe"


def note_on_protocol(task: str, points: Iterable[Point]) -> str:
    """Return the note on a task whose reported rows are its validation rows too."""
    choices = choices_of([point for point in points if point["task"] == task])
    if not choices:
        return f"{task}: protocol 'paper': no validation rows are set apart, and nothing is chosen on the reported rows"
    *others, last = choices
    words = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    return f"{task}: protocol 'paper': {words} chosen on the reported rows, so results are optimistic"


def choices_of(points: Sequence[Point]) -> list[str]:
    """Return what was chosen on validation rows, without repetitions: epochs, candidates, and what points declare."""
    epochs = ["the epoch" for point in points if _trains(point.spec) and point.spec.recipe.select == "best"]
    rivals = group_by(
        [point for point in points if point.is_candidate], lambda point: str(sorted(point.labels.items()))
    )
    candidates = [name for group in rivals.values() for name in _differences([point.spec for point in group])]
    return list(dict.fromkeys([*epochs, *candidates, *(name for point in points for name in point.chosen)]))


def _trains(spec: TrialSpec) -> bool:
    """Whether a trial tunes layers or a head; others only measure."""
    return spec.kind == "tune" or bool(spec.plan.layers)


def _differences(specs: Sequence[TrialSpec]) -> list[str]:
    """Return the fields of the recipe in which candidates differ; 'the trial' if they differ in something else."""
    names = [field.name for field in fields(Recipe) if len({getattr(spec.recipe, field.name) for spec in specs}) > 1]
    if not names and len({spec.id for spec in specs}) > 1:
        return ["the trial"]
    return [f"the {name.replace('_', ' ')}" for name in names]
