"""Studies: the papers' experiments on any encoder and task, one file or folder each.

A study yields trials and builds tables from their results; `_engine/` runs, resumes and stores them. The keyword
arguments of a study are its options. A study can read results that exist already and yield further trials, such as
those with the best of several learning rates; it is called again until no trial is missing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, isfinite
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from frostline.errors import OptionError
from frostline.options import read_options
from frostline.plans.learning_rates import scale_paper_rate
from frostline.records import LayerScores, Plan, Recipe, TrialResult, TrialSpec
from frostline.registry import Registry, describe
from frostline.studies._counterparts import Counterpart

if TYPE_CHECKING:
    from frostline.charts import Figure, Results
    from frostline.encoders.encoder import Encoder
    from frostline.records.table import Table
    from frostline.tasks import Task
    from frostline.trials.context import TrialKind

Value = int | float | bool | str
Setting = TypeVar("Setting")
MeasureScores = Callable[..., LayerScores]  # (encoder, task, names, *, pooling="mean", rows="train", examples=5_000)


@dataclass(frozen=True, kw_only=True)
class Point:
    """A trial and its labels in the study; several points may share a trial.

    Args:
        spec: the trial.
        labels: encoder, task, arm, seed and further columns of the tables.
        is_candidate: whether it is one of several trials of which the best represents the arm; tables leave it out.
        chosen: what was chosen for it on validation rows besides the epoch of a tuned model and among candidates, such
            as 'the number of layers'.
    """

    spec: TrialSpec
    labels: Mapping[str, Any]
    is_candidate: bool = False
    chosen: tuple[str, ...] = ()

    def __getitem__(self, label: str) -> Any:
        return self.labels[label]


@dataclass(frozen=True, kw_only=True)
class Measured(Point):
    """A point with its trial's result."""

    result: TrialResult

    @property
    def is_done(self) -> bool:
        """Whether the trial succeeded."""
        return self.result.status == "done"


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The request that a study answers.

    Args:
        encoders: loaded encoders.
        tasks: tasks with their splits.
        seeds: number of seeds: 0, 1, ...
        rows: maximum number of training rows; None for all.
        recipe: default recipe of all trials.
        known: returns the result of a trial, or None if it has not run.
        scores: measures layer scores of an encoder on a task, once.
        margin: acceptable loss, in points of the metric.
        given: settings that override the paper's: 'seeds' and fields of the recipe.
    """

    encoders: tuple[Encoder, ...]
    tasks: tuple[Task, ...]
    seeds: int
    rows: int | None
    recipe: Recipe
    known: Callable[[TrialSpec], TrialResult | None]
    scores: MeasureScores
    margin: float = 1.0
    given: frozenset[str] = frozenset()

    def pairs(self) -> Iterator[tuple[Encoder, Task]]:
        """Return every encoder with every task."""
        return product(self.encoders, self.tasks)

    def cases(self) -> Iterator[tuple[Encoder, Task, int]]:
        """Return every encoder with every task and seed."""
        return product(self.encoders, self.tasks, range(self.seeds))

    def task(self, name: str) -> Task:
        """Return the task with this name."""
        return next(task for task in self.tasks if task.name == name)

    def point(
        self,
        encoder: Encoder,
        task: Task,
        plan: Plan,
        *,
        arm: str,
        seed: int,
        rows: int | None = None,
        kind: str = "tune",
        surgery: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        labels: Mapping[str, Any] | None = None,
        is_candidate: bool = False,
        chosen: Iterable[str] = (),
        **recipe: Any,
    ) -> Point:
        """Return a trial of the study.

        Args:
            encoder: one of the study's encoders.
            task: one of the study's tasks.
            plan: the layers to train.
            arm: name of the arm in tables.
            seed: seed of the rows, their order and the head; the same for all arms that are compared.
            rows: number of training rows, instead of the study's.
            kind: kind of trial.
            surgery: surgery before training.
            options: options of the kind of trial.
            labels: further columns of tables.
            is_candidate: whether it is one of several trials of which the best represents the arm.
            chosen: what else is chosen for it on validation rows.
            recipe: fields that differ from the study's recipe.
        """
        count = self.rows if rows is None else rows
        spec = TrialSpec(
            encoder=encoder.ref,
            task=task.ref,
            plan=plan,
            recipe=replace(self.recipe, seed=seed, **recipe),
            train_rows=None if count is None or count >= len(task.train) else count,
            kind=kind,
            surgery=surgery or {},
            options=options or {},
        )
        columns = {"encoder": encoder.name, "task": task.name, "arm": arm, "seed": seed, **(labels or {})}
        return Point(spec=spec, labels=columns, is_candidate=is_candidate, chosen=tuple(chosen))

    def rate_for(self, encoder: Encoder, rate: float) -> float:
        """Return the recipe's learning rate, or the paper's, scaled up in proportion for encoders narrower than 768.

        The papers use the same rates for base and large encoders.
        """
        if not rate > 0:
            raise OptionError(f"option rate {rate:g} must be above 0")
        return self.recipe.learning_rate or scale_paper_rate(rate, encoder.width)

    def epochs(self, usual: int) -> int:
        """Return the recipe's epochs if the user set them, or those of the paper."""
        return self.recipe.epochs if "epochs" in self.given else usual

    def has_failed(self, point: Point) -> bool:
        """Whether the trial ran and failed."""
        result = self.known(point.spec)
        return result is not None and result.status == "failed"

    def best(self, points: Sequence[Point]) -> Point | None:
        """Return the point that is best on validation, the first of equals; None while a result is missing.

        If all failed, the first one represents them, so that tables count the failure.
        """
        number = self.best_over_seeds({number: [point] for number, point in enumerate(points)})
        return None if number is None else points[number]

    def best_over_seeds(self, candidates: Mapping[Setting, Sequence[Point]]) -> Setting | None:
        """Return the setting that is best on validation, on average over seeds; None while a result is missing.

        A failed trial counts as the worst: a setting with fewer failures comes first. The first of equals is returned.

        Args:
            candidates: for each setting, such as a learning rate, its points, one for each seed.
        """
        quality = {setting: self._validation(points) for setting, points in candidates.items()}
        best: tuple[tuple[int, float], Setting] | None = None
        for setting, values in quality.items():
            if None in values:
                return None
            done = [value for value in values if value is not None and isfinite(value)]
            rank = len(done) - len(values), fmean(done) if done else -inf
            if best is None or rank > best[0]:
                best = rank, setting
        return None if best is None else best[1]

    def _validation(self, points: Sequence[Point]) -> list[float | None]:
        """Return each point's validation metric, higher for better, -inf for a failed trial, None for a missing one."""
        from frostline.tasks.metrics import METRICS

        values: list[float | None] = []
        for point in points:
            metric, result = METRICS[point.spec.task.metrics[0]], self.known(point.spec)
            if result is None:
                values.append(None)
            else:
                is_done = result.status == "done"
                values.append(metric.signed(result.metrics["validation"][metric.name]) if is_done else -inf)
        return values


Trials = Callable[..., Iterator[Point]]
Tables = Callable[[Ask, Sequence[Measured]], "list[Table]"]
Figures = Callable[["Results"], "list[Figure]"]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A registered study.

    Args:
        name: name on the command line.
        question: the question it answers, in one line.
        about: the rest of its description.
        paper: author and year of the paper.
        tasks: default tasks, as presets.
        metrics: the metric that decides in the paper, by preset, where it is not the preset's own.
        seeds: number of seeds in the paper.
        recipe: the paper's recipe.
        unstated: fields of the recipe that the paper does not state, with the reason for our choice.
        selection: one sentence on how the epoch is chosen under each protocol.
        before: values that options had in studies before these options existed, where they are not the defaults.
        varies: 'seeds' or 'epochs', if the paper varies them with the encoder or the rows.
        defaults: options and their defaults.
        quick: options of a quick run.
        quick_seeds: number of seeds of a quick run.
        quick_recipe: fields of the recipe that differ in a quick run.
        quick_tasks: tasks of a quick run.
        trials: yields points from a request and options.
        tables: builds tables from a request and measured points.
        figures: draws figures from tables.
        kinds: kinds of trials besides plain tuning.
        reproduces: the paper's figures and tables that it repeats, with their commands.
    """

    name: str
    question: str
    about: str
    paper: str
    tasks: tuple[str, ...]
    metrics: Mapping[str, str]
    seeds: int
    recipe: Mapping[str, Any]
    unstated: Mapping[str, str]
    selection: str
    before: Mapping[str, Value]
    varies: frozenset[str]
    defaults: Mapping[str, Value]
    quick: Mapping[str, Value]
    quick_seeds: int
    quick_recipe: Mapping[str, Any]
    quick_tasks: tuple[str, ...]
    trials: Trials
    tables: Tables
    figures: Figures
    kinds: tuple[TrialKind, ...] = ()
    reproduces: tuple[Counterpart, ...] = ()

    def options(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """Return all options with their values; raise on unknown options and values of the wrong type."""
        return read_options(f"study {self.name}", self.defaults, given)

    def metric_of(self, data: object) -> str | None:
        """Return the metric that decides in the paper on a preset; None for the preset's own, and for other data."""
        from frostline.tasks.loading import preset_of

        preset = preset_of(data)
        return None if preset is None else self.metrics.get(preset.name)

    def draw(self, results: Results) -> list[Figure]:
        """Return the figures of the tables, without empty ones."""
        return [figure for figure in self.figures(results) if figure.rows]


STUDIES: Registry[Study] = Registry("study", package="frostline.studies", entry_points="frostline.studies")


def study(
    *,
    paper: str,
    tables: Tables,
    figures: Figures,
    name: str | None = None,
    tasks: Iterable[str] = ("glue/sst2", "glue/cola", "glue/mrpc"),
    metrics: Mapping[str, str] | None = None,
    seeds: int = 5,
    recipe: Mapping[str, Any] | None = None,
    unstated: Mapping[str, str] | None = None,
    selection: str = "",
    before: Mapping[str, Value] | None = None,
    varies: Iterable[str] = (),
    quick: Mapping[str, Value] | None = None,
    quick_seeds: int = 2,
    quick_recipe: Mapping[str, Any] | None = None,
    quick_tasks: Iterable[str] = ("movies",),
    kinds: Iterable[TrialKind] = (),
    reproduces: Iterable[Counterpart] = (),
) -> Callable[[Trials], Study]:
    """Register a function that yields a study's points; its docstring is the study's description."""

    def register(function: Trials) -> Study:
        question, options = describe(function)
        registered = Study(
            name=name or function.__name__,
            question=question,
            about=inspect.cleandoc(function.__doc__ or "")[len(question) :].strip(),
            paper=paper,
            tasks=tuple(tasks),
            metrics=metrics or {},
            seeds=seeds,
            recipe=recipe or {},
            unstated=unstated or {},
            selection=selection,
            before=before or {},
            varies=frozenset(varies),
            defaults=options,
            quick=quick or {},
            quick_seeds=quick_seeds,
            quick_recipe=quick_recipe or {},
            quick_tasks=tuple(quick_tasks),
            trials=function,
            tables=tables,
            figures=figures,
            kinds=tuple(kinds),
            reproduces=tuple(reproduces),
        )
        registered.options(registered.quick)
        return STUDIES.add(registered.name, registered)

    return register
