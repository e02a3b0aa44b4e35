"""`frostline run` and the Trainer side by side, and the means of their ratios, for `time_to_quality.py`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf
from typing import Any

import numpy as np
from scipy import stats

GOAL = 0.99  # of the Trainer's best validation score

Line = dict[str, Any]  # of the results file


def until(line: Line, goal: float) -> float:
    """Return the seconds until a score meets the goal; infinite if none does."""
    return next((seconds for seconds, value in line["curve"] if value >= goal), inf)


@dataclass(frozen=True)
class Pair:
    """The run and the Trainer, with its best rate, on one task and seed."""

    run: Line
    trainer: Line

    @property
    def goal(self) -> float:
        """Return the validation score to reach."""
        return GOAL * self.trainer["validation"]

    @property
    def is_met(self) -> bool:
        """Whether the run meets the goal."""
        return until(self.run, self.goal) < inf

    @property
    def sooner(self) -> float:
        """Return the Trainer's time until the goal over that of the run, or of the run and the Trainer after it."""
        full = until(self.trainer, self.goal)
        return full / (until(self.run, self.goal) if self.is_met else self.run["seconds"] + full)

    @property
    def whole(self) -> float:
        """Return the time of the Trainer's one training over that of the whole run."""
        return self.trainer["seconds"] / self.run["seconds"]


def table(pairs: Sequence[Pair]) -> str:
    """Return a row per pair; the first of two numbers is the run's, the second the Trainer's."""
    columns = (
        "task", "seed", "choice", "rate", "steps", "seconds until the goal", "ratio", "seconds in all", "ratio",
        "validation", "test",
    )  # fmt: skip
    rows = [columns, ["---"] * len(columns), *map(_cells, pairs)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(pair: Pair) -> list[str]:
    run, full = pair.run, pair.trainer
    return [
        run["task"],
        str(run["seed"]),
        run["plan"],
        f"{full['rate']:g}",
        str(full["steps"]),
        f"{f'{until(run, pair.goal):.0f}' if pair.is_met else 'never'}, {until(full, pair.goal):.0f}",
        f"{pair.sooner:.2f}",
        f"{run['seconds']:.0f}, {full['seconds']:.0f}",
        f"{pair.whole:.2f}",
        *(f"{100 * run[split]:.1f}, {100 * full[split]:.1f}" for split in ("validation", "test")),
    ]


def figures(pairs: Sequence[Pair]) -> dict[str, float | None]:
    """Return the mean ratios with their intervals, and the mean test scores in points."""
    tasks = dict.fromkeys(pair.run["task"] for pair in pairs)
    by_task = {task: [pair for pair in pairs if pair.run["task"] == task] for task in tasks}
    return {
        **geometric_mean("sooner", {task: [pair.sooner for pair in own] for task, own in by_task.items()}),
        **geometric_mean("whole_vs_trainer", {task: [pair.whole for pair in own] for task, own in by_task.items()}),
        "test_frostline": round(statistics.mean(100 * pair.run["test"] for pair in pairs), 2),
        "test_trainer": round(statistics.mean(100 * pair.trainer["test"] for pair in pairs), 2),
        "goal_met": sum(pair.is_met for pair in pairs),
        "pairs": len(pairs),
    }


def geometric_mean(name: str, ratios: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
    """Return the geometric mean over tasks of the ratios of their seeds, with two 95% intervals.

    One is for other seeds of the same tasks, from how far the seeds of a task lie apart. The other, 'over tasks', is
    for other tasks, from how far the tasks' means lie apart; with three tasks it is wide.
    """
    logs = [np.log(own) for own in ratios.values()]
    means = np.array([own.mean() for own in logs])
    middle, tasks = means.mean(), len(logs)
    within = np.concatenate([own - own.mean() for own in logs])
    freedom = len(within) - tasks
    of_seeds = (within**2).sum() / max(1, freedom) * sum(1 / len(own) for own in logs) / tasks**2
    of_tasks = ((means - middle) ** 2).sum() / max(1, tasks - 1) / tasks
    return {
        name: round(exp(middle), 3),
        **_interval(name, middle, of_seeds, freedom),
        **_interval(f"{name}_over_tasks", middle, of_tasks, tasks - 1),
    }


def _interval(name: str, middle: float, variance: float, freedom: int) -> dict[str, float | None]:
    """Return the ends of the t-interval of a mean of logarithms; None where nothing is known of its variance."""
    if not freedom:
        return {f"{name}_low": None, f"{name}_high": None}
    half = stats.t.ppf(0.975, freedom) * variance**0.5
    return {f"{name}_low": round(exp(middle - half), 3), f"{name}_high": round(exp(middle + half), 3)}
