"""The rows that plans of a search are judged on: validation rows, or where these are few all labelled rows in folds.

A hundred validation rows cannot show a difference of a few points. So where Frostline would carve fewer, every plan is
trained four times, each time without another quarter of the labelled rows, and is judged by what these models predict
for the rows that they have not seen. The model that is saved is trained on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from frostline.records import TrialResult
from frostline.records.budget import Goal
from frostline.records.difference import Difference
from frostline.records.run import judging_rows
from frostline.search.validation import SHARE, with_more_validation
from frostline.stats.intervals import compare
from frostline.tasks import Split, Task

FEWEST = 100  # validation rows
FOLDS = 4


@dataclass(frozen=True)
class Judging:
    """How plans are judged: on validation rows, or in folds of all labelled rows.

    Args:
        task: the task.
        folds: number of folds; None for the validation rows.
    """

    task: Task
    folds: int | None = None

    @property
    def rows(self) -> Split:
        """The rows that plans are judged on, in the order of a trial's predictions."""
        if self.folds is not None:
            return self.task.labelled
        assert self.task.validation is not None  # noqa: S101 (checked before the race)
        return self.task.validation

    @property
    def in_words(self) -> str:
        """How many rows of which kind these are."""
        return judging_rows(len(self.rows), folds=self.folds)

    def difference(self, own: TrialResult, other: TrialResult, *, seed: int = 0) -> Difference:
        """Return how much better one trial is than another on these rows."""
        rows, first, second = self.rows, own.predictions["validation"], other.predictions["validation"]
        return compare(rows.labels, first, second, self.task.metrics[0], groups=rows.groups, seed=seed)


def divided_for_search(task: Task, *, refit: bool, goal: Goal, seed: int = 0) -> tuple[Task, int | None]:
    """Return the task as a search divides it, and in how many folds plans are judged; None for the validation rows.

    A validation split that was given is used as it is; without a refit no model may be trained on validation rows, and
    with all plans in the race folds would take too long.

    Args:
        task: the task.
        refit: whether the choice is trained on all labelled rows in the end.
        goal: what the search is for.
        seed: seed of the division.
    """
    if not refit:
        return task, None
    larger = with_more_validation(task, seed=seed)
    is_own = "validation" in task.carved and task.validation is not task.test
    is_few = SHARE * len(task.labelled) < FEWEST
    if not is_own or not is_few or goal == "best":
        return larger, None
    return replace(larger, notes=task.notes), FOLDS  # all rows are judged on, but in the order of the larger division


def why_folds(judging: Judging) -> str:
    """Return a sentence for the user on how plans are judged in folds."""
    return (
        f"{len(judging.rows):,} labelled rows are few, so plans are judged by {judging.folds}-fold cross-validation on "
        "all of them, after a fixed number of steps, and models are trained on all"
    )
