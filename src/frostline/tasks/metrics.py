"""Task metrics: functions of labels and predictions; higher is better unless the summary says otherwise.

They are never NaN. A correlation that is undefined because labels or predictions are constant is 0.0: such a model
knows nothing about the order of the rows. Predictions that are not finite are an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from frostline.errors import OptionError
from frostline.registry import Registry, describe
from frostline.tasks.task import Kind, Split

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[Any]]

IMBALANCE = 3


@dataclass(frozen=True, kw_only=True)
class TaskMetric:
    """A named metric; call it with labels and predictions.

    Args:
        name: name of the metric.
        summary: one line for lists.
        kinds: kinds of tasks that it fits.
        higher_is_better: whether higher values are better.
        binary_only: whether it needs exactly two classes.
        points: number of points of a value of 1: 100 for shares and correlations, 1 for metrics in their own units.
        least: lower bound of values.
        most: upper bound of values.
        function: function of labels and predictions.
    """

    name: str
    summary: str
    kinds: tuple[Kind, ...]
    higher_is_better: bool
    binary_only: bool
    points: float
    least: float
    most: float
    function: Callable[[Numbers, Numbers], float]

    def __call__(self, labels: Sequence[float] | Numbers, predictions: Sequence[float] | Numbers) -> float:
        """Return the metric of labels and predictions of the same rows (class numbers, or values for regression)."""
        import numpy as np

        truth, guess = np.asarray(labels), np.asarray(predictions)
        if truth.shape != guess.shape or truth.ndim != 1 or not truth.size:
            raise ValueError(f"labels {truth.shape} and predictions {guess.shape} must be two equal, non-empty columns")
        if not (np.isfinite(truth).all() and np.isfinite(guess).all()):
            raise ValueError(f"{self.name}: labels or predictions contain values that are not finite")
        return float(self.function(truth, guess))

    @property
    def gain(self) -> float:
        """The factor from a value to points of which more are better."""
        return self.signed(self.points)

    def signed(self, value: float) -> float:
        """Return the value, negated if lower is better, so that the higher one is the better one."""
        return value if self.higher_is_better else -value

    @property
    def ends(self) -> tuple[float, float]:
        """The lower and upper bound of points, where higher is better."""
        low, high = sorted((self.gain * self.least, self.gain * self.most))
        return float(low), float(high)

    def shown(self, value: float) -> str:
        """Return the value as tables show it: in points with one decimal, or in its own units with four digits."""
        return f"{self.points * value:.1f}" if self.points == 100 else f"{value:.4g}"

    def describe_difference(self, difference: object, where: str = "") -> str:
        """Return a difference of two models in words: in points, or in its own units; positive is better."""
        name = f"{where} {self.name}".lstrip()
        return self.gap(f"{difference} points of {name}" if self.points == 100 else f"{difference} of {name}")

    def gap(self, text: str) -> str:
        """Return the text about a difference of two models, with '(+ is better)' if lower values are better."""
        return text if self.higher_is_better else f"{text} (+ is better)"


METRICS: Registry[TaskMetric] = Registry("task metric")

_Function = Callable[["Numbers", "Numbers"], float]


def task_metric(
    *,
    kinds: tuple[Kind, ...],
    higher_is_better: bool = True,
    binary_only: bool = False,
    points: float = 100,
    least: float = 0,
    most: float = 1,
) -> Callable[[_Function], TaskMetric]:
    """Register a function of (labels, predictions) under its own name; its docstring's first line is the summary."""

    def register(function: _Function) -> TaskMetric:
        metric = TaskMetric(
            name=function.__name__,
            summary=describe(function)[0],
            kinds=kinds,
            higher_is_better=higher_is_better,
            binary_only=binary_only,
            points=points,
            least=least,
            most=most,
            function=function,
        )
        return METRICS.add(metric.name, metric)

    return register


@task_metric(kinds=("classification", "multiple choice"))
def accuracy(labels: Numbers, predictions: Numbers) -> float:
    """The share of rows with the right prediction."""
    return float((labels == predictions).mean())


@task_metric(kinds=("classification",))
def macro_f1(labels: Numbers, predictions: Numbers) -> float:
    """The mean over classes of F1, so that rare classes count as much as common ones."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predictions, average="macro", zero_division=0))


@task_metric(kinds=("classification",), binary_only=True)
def f1(labels: Numbers, predictions: Numbers) -> float:
    """Harmonic mean of precision and recall for the second of two classes."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predictions, pos_label=1, average="binary", zero_division=0))


@task_metric(kinds=("classification",), binary_only=True)
def f1a(labels: Numbers, predictions: Numbers) -> float:
    """F1 over all answers of all questions together, MultiRC's own metric."""
    return METRICS["f1"](labels, predictions)


@task_metric(kinds=("classification",), least=-1)
def matthews(labels: Numbers, predictions: Numbers) -> float:
    """Matthews correlation between labels and predictions, -1 to 1; 0 for constant predictions."""
    import numpy as np
    from sklearn.metrics import matthews_corrcoef

    if len(np.unique(labels)) == 1 or len(np.unique(predictions)) == 1:
        return 0.0
    return float(matthews_corrcoef(labels, predictions))


@task_metric(kinds=("regression",), least=-1)
def spearman(labels: Numbers, predictions: Numbers) -> float:
    """Correlation between the ranks of labels and predictions, -1 to 1; 0 for constant predictions."""
    from scipy.stats import spearmanr

    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    return float(spearmanr(labels, predictions).statistic)


@task_metric(kinds=("regression",), least=-1)
def pearson(labels: Numbers, predictions: Numbers) -> float:
    """Linear correlation between labels and predictions, -1 to 1; 0 for constant predictions."""
    import numpy as np

    if _is_constant(labels) or _is_constant(predictions):
        return 0.0
    a = np.asarray(labels, dtype=np.float64) - np.mean(labels, dtype=np.float64)
    b = np.asarray(predictions, dtype=np.float64) - np.mean(predictions, dtype=np.float64)
    # Scaled first: the squares of numbers near the ends of the range would overflow or vanish.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


@task_metric(kinds=("regression",), least=-inf)
def r2(labels: Numbers, predictions: Numbers) -> float:
    """The share of the labels' variance that the predictions explain; 0 for always predicting the mean."""
    from sklearn.metrics import r2_score

    return 0.0 if len(labels) < 2 else float(r2_score(labels, predictions))


@task_metric(kinds=("regression",), higher_is_better=False, points=1, most=inf)
def mse(labels: Numbers, predictions: Numbers) -> float:
    """The mean squared difference between labels and predictions; lower is better."""
    from sklearn.metrics import mean_squared_error

    return float(mean_squared_error(labels, predictions))


def choose_metrics(
    kind: Kind, train: Split, *, n_classes: int, asked: str | None = None, default: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the metrics of a task: the one asked for, then the default ones for its kind and balance.

    Regression: Spearman, with Pearson. Classification: accuracy, or macro-F1 (with accuracy) if the largest class has
    more than three times the rows of the smallest. Multiple choice: accuracy.

    Args:
        kind: the kind of task.
        train: the training rows.
        n_classes: number of classes.
        asked: the metric that decides.
        default: the task's own metrics, instead of those for its kind.
    """
    if asked is not None:
        fits_kind = kind in METRICS[asked].kinds
        fitting = [n for n, m in METRICS.items() if kind in m.kinds and not (m.binary_only and n_classes != 2)]
        if asked not in fitting:
            task = f"{kind} with {n_classes} classes" if fits_kind else kind
            raise OptionError(f"metric {asked!r} does not fit {task}; these do: {', '.join(fitting)}")
    if not default:
        sizes = Counter(train.labels).values()
        is_imbalanced = max(sizes) > IMBALANCE * min(sizes)
        classification = ("macro_f1", "accuracy") if is_imbalanced else ("accuracy",)
        defaults = {"classification": classification, "regression": ("spearman", "pearson")}
        default = defaults.get(kind, ("accuracy",))
    return tuple(dict.fromkeys((asked or default[0], *default)))


def _is_constant(values: Numbers) -> bool:
    return bool((values == values[0]).all())
