"""Studies: the papers' experiments on any encoder and task, one file each.

A study yields trials and makes tables of their results; what runs, resumes and records them lies in `runner/`. Its
keyword arguments are the options that a user can set. It may look at results that are known already and yield more
trials then, such as those that use the best of several learning rates; it is asked again until nothing is missing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frostline.errors import OptionError
from frostline.options import read_options
from frostline.records import LayerScores, Plan, Recipe, TrialResult, TrialSpec
from frostline.registry import Registry, describe

if TYPE_CHECKING:
    from frostline.charts import Figure, Results
    from frostline.encoders.encoder import Encoder
    from frostline.records.table import Table
    from frostline.tasks import Task
    from frostline.trials.context import TrialKind

Value = int | float | bool | str
MeasureScores = Callable[..., LayerScores]  # (encoder, task, names, *, pooling="mean")
_USUAL_WIDTH = 768  # of the encoders that the papers' learning rates are for


@dataclass(frozen=True, kw_only=True)
class Point:
    """A trial and what it stands for in the study; several points may share a trial.

    Args:
        spec: the trial.
        labels: encoder, task, arm and seed, and what else the tables ask for.
        is_candidate: whether it is one of several trials of which the best stands for the arm; tables do not count it.
    """

    spec: TrialSpec
    labels: Mapping[str, Any]
    is_candidate: bool = False

    def __getitem__(self, label: str) -> Any:
        return self.labels[label]


@dataclass(frozen=True, kw_only=True)
class Measured(Point):
    """A point with its trial's result."""

    result: TrialResult

    @property
    def is_done(self) -> bool:
        """Whether it has not failed."""
        return self.result.status == "done"


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a study is asked to do.

    Args:
        encoders: loaded.
        tasks: with their splits.
        seeds: how many; they are 0, 1, ...
        rows: training rows at most; None for all.
        recipe: of every trial, as far as the study does not say otherwise.
        known: the result of a trial, or None if it has not been run.
        scores: layer scores of an encoder on a task, measured once.
        margin: points of the metric that count as little to lose.
        given: what the user or a quick look has set, as against the paper's defaults: 'seeds', fields of the recipe.
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
        """Every encoder with every task."""
        return ((encoder, task) for encoder in self.encoders for task in self.tasks)

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
        **recipe: Any,
    ) -> Point:
        """A trial of the study.

        Args:
            encoder: one of the study's.
            task: one of the study's.
            plan: what trains.
            arm: what the trial stands for in tables.
            seed: the same for all arms that are compared: it gives the rows, their order and the head's start.
            rows: training rows, in place of the study's.
            kind: of trial.
            surgery: before training.
            options: of the kind.
            labels: for tables, besides encoder, task, arm and seed.
            is_candidate: whether it is one of several trials of which the best stands for the arm.
            recipe: what differs from the study's recipe.
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
        said = {"encoder": encoder.name, "task": task.name, "arm": arm, "seed": seed, **(labels or {})}
        return Point(spec=spec, labels=said, is_candidate=is_candidate)

    def rate_for(self, encoder: Encoder, rate: float) -> float:
        """The recipe's learning rate, or else the paper's for encoders of width 768 or more, higher for narrower ones.

        The papers have the same rates for base and large encoders.
        """
        if not rate > 0:
            raise OptionError(f"option rate {rate:g} must be above 0")
        return self.recipe.learning_rate or float(f"{rate * max(1, _USUAL_WIDTH / encoder.width):.3g}")

    def epochs(self, usual: int) -> int:
        """The recipe's epochs where they were asked for, or else what the paper has for this case."""
        return self.recipe.epochs if "epochs" in self.given else usual

    def has_failed(self, point: Point) -> bool:
        """Whether the trial has been run and failed."""
        found = self.known(point.spec)
        return found is not None and found.status == "failed"

    def best(self, points: Sequence[Point]) -> Point | None:
        """The point that is best on validation, the first of equals; None while one is missing.

        Where all have failed, the first stands for them, so that they are counted.
        """
        from frostline.tasks.metrics import METRICS

        results = [self.known(point.spec) for point in points]
        if any(result is None for result in results):
            return None
        metric = METRICS[points[0].spec.task.metrics[0]]
        done = [
            (metric.signed(result.metrics["validation"][metric.name]), -place)
            for place, result in enumerate(results)
            if result is not None and result.status == "done"
        ]
        return points[-max(done)[1]] if done else points[0]


Trials = Callable[..., Iterator[Point]]
Tables = Callable[[Ask, Sequence[Measured]], "list[Table]"]
Figures = Callable[["Results"], "list[Figure]"]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A registered study.

    Args:
        name: how it is asked for.
        question: what it asks, in one line.
        about: the rest of its description.
        paper: the number of the paper it is from.
        tasks: the presets it takes unless told otherwise.
        seeds: how many, as in the paper.
        recipe: how the paper trains.
        varies: what of 'seeds' and 'epochs' the paper varies with the encoder or the rows, unless it is given.
        defaults: its options and what they are unless set.
        quick: options of a first look.
        quick_seeds: how many then.
        quick_recipe: what differs from the recipe then.
        quick_tasks: which tasks then.
        trials: from what is asked and the options to points.
        tables: from what was asked and measured points to tables.
        figures: from tables to what is drawn of them.
        kinds: the kinds of trials that it has besides plain tuning.
    """

    name: str
    question: str
    about: str
    paper: str
    tasks: tuple[str, ...]
    seeds: int
    recipe: Mapping[str, Any]
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

    def options(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """All options with their values, refusing unknown ones and values of the wrong kind."""
        return read_options(f"study {self.name}", self.defaults, given)

    def draw(self, results: Results) -> list[Figure]:
        """What is drawn of the tables; nothing of tables that are empty."""
        return [figure for figure in self.figures(results) if figure.rows]


STUDIES: Registry[Study] = Registry("study", package="frostline.studies", entry_points="frostline.studies")


def study(
    *,
    paper: str,
    tables: Tables,
    figures: Figures,
    name: str | None = None,
    tasks: Iterable[str] = ("glue/sst2", "glue/cola", "glue/mrpc"),
    seeds: int = 5,
    recipe: Mapping[str, Any] | None = None,
    varies: Iterable[str] = (),
    quick: Mapping[str, Value] | None = None,
    quick_seeds: int = 2,
    quick_recipe: Mapping[str, Any] | None = None,
    quick_tasks: Iterable[str] = ("movies",),
    kinds: Iterable[TrialKind] = (),
) -> Callable[[Trials], Study]:
    """Register a function that yields a study's points; its docstring is the study's description."""

    def register(function: Trials) -> Study:
        question, options = describe(function)
        made = Study(
            name=name or function.__name__,
            question=question,
            about=inspect.cleandoc(function.__doc__ or "")[len(question) :].strip(),
            paper=paper,
            tasks=tuple(tasks),
            seeds=seeds,
            recipe=recipe or {},
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
        )
        made.options(made.quick)
        return STUDIES.add(made.name, made)

    return register
