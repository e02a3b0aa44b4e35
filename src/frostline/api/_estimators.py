"""Scikit-learn estimators, for pipelines, grid searches and cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError

from frostline.api._tune import tune
from frostline.encoders.encoder import Encoder
from frostline.errors import DataError, OptionError
from frostline.files import output_folder
from frostline.kernels.device import computing
from frostline.prediction.export import save
from frostline.prediction.loading import Predictor
from frostline.records import Plan, Recipe
from frostline.tasks import Split, Task, choose_metrics
from frostline.tasks.splits import divide
from frostline.tasks.unlabelled import read_list
from frostline.training.result import Tuned

Array = npt.NDArray[Any]


class _Tuning(BaseEstimator):  # type: ignore[misc]
    """Settings and tuning, which the classifier and the regressor share."""

    def __init__(
        self,
        encoder: Encoder | str | Path | None = None,
        *,
        plan: Plan | str = "full",
        method: str | None = None,
        learning_rate: float | None = None,
        epochs: int = 3,
        batch: int = 32,
        weight_decay: float = 0.0,
        warmup: float = 0.06,
        dropout: float | None = None,
        head: str = "family",
        max_length: int | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.1,
        metric: str | None = None,
        cache: bool = True,
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        """Store the settings; `fit` checks them.

        Args:
            encoder: an Encoder, a folder, a hub id, or None for the embedded default.
            plan: which layers train, as in `frostline.tune`.
            method: how they train, as in 'lora:rank=8'; None for full weights.
            learning_rate: peak learning rate; None for the default of the method.
            epochs: number of epochs.
            batch: batch size.
            weight_decay: weight decay of AdamW.
            warmup: share of the steps used for warm-up.
            dropout: dropout in layers and head; None for the encoder's own.
            head: 'family' for the architecture's own head, or 'mean' for mean pooling and a linear layer.
            max_length: number of tokens at which texts are cut.
            patience: number of evaluations without improvement after which training stops.
            validation_fraction: share of the texts on which the best epoch is chosen; 0 keeps the last epoch.
            metric: metric by which the epoch is chosen; None for the task's default.
            cache: cache the output of frozen layers on disk.
            threads: CPU threads.
            seed: random seed.
        """
        self.encoder = encoder
        self.plan = plan
        self.method = method
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch = batch
        self.weight_decay = weight_decay
        self.warmup = warmup
        self.dropout = dropout
        self.head = head
        self.max_length = max_length
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.metric = metric
        self.cache = cache
        self.threads = threads
        self.seed = seed

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the tuned model, its card, metrics and predictions, as `frostline.tune` does with an output folder."""
        output_folder.check_output(Path(folder), overwrite=overwrite, resume=False)
        save(self._fitted(), folder)

    def _recipe(self) -> Recipe:
        named = (
            "learning_rate", "epochs", "batch", "weight_decay", "warmup", "dropout", "head", "max_length", "patience",
            "threads", "seed",
        )  # fmt: skip
        return Recipe(**{name: getattr(self, name) for name in named})

    def _tune(self, rows: Split, kind: Any, names: tuple[str, ...]) -> None:
        self.tuned_: Tuned = tune(
            self.encoder,
            self._task(rows, kind, names),
            plan=self.plan,
            method=self.method,
            recipe=self._recipe(),
            cache=self.cache,
            test=False,
        )

    def _task(self, rows: Split, kind: Any, names: tuple[str, ...]) -> Task:
        share = self.validation_fraction
        if not 0 <= share < 1:
            raise OptionError(f"validation_fraction {share!r}: must be at least 0 and below 1")
        metrics = choose_metrics(kind, rows, n_classes=len(names), asked=self.metric)
        train, validation = rows, None
        if share:
            train, held = divide(rows, max(1, round(share * len(rows))), seed=self.seed, purpose="validation")
            validation = held if len(held) else None
        return Task(
            name="texts",
            kind=kind,
            label_names=names,
            train=train,
            validation=validation,
            test=None,
            metrics=metrics,
            source="memory",
        )

    def _outputs(self, texts: Any) -> Array:
        """Return the outputs of the model, (texts, outputs)."""
        tuned = self._fitted()
        model = Predictor(
            tunable=tuned.tunable,
            kind=tuned.task.kind,
            label_names=tuned.task.label_names,
            max_length=tuned.recipe.max_length or tuned.tunable.encoder.default_length,
            name=type(self).__name__,
        )
        with computing():
            return np.asarray(model.outputs(_rows(texts)))

    def _fitted(self) -> Tuned:
        if not hasattr(self, "tuned_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.tuned_


class FrostlineClassifier(ClassifierMixin, _Tuning):  # type: ignore[misc]
    """A scikit-learn classifier of texts or pairs of texts: chosen layers of a pretrained encoder, tuned.

    Example:
        >>> texts, labels = ["lovely", "dull"] * 20, ["good", "bad"] * 20
        >>> model = frostline.FrostlineClassifier(plan="6,6,6", epochs=1).fit(texts, labels)
        >>> len(model.predict(["a lovely evening"]))
        1
    """

    def fit(self, X: Any, y: Any) -> FrostlineClassifier:  # noqa: N803 (scikit-learn's own name)
        """Tune on texts, or on pairs of texts, and their labels, which may be strings or whole numbers."""
        labels = np.asarray(y)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y: contains only one class ({self.classes_.tolist()}); at least two are needed")
        rows = _labelled(X, [int(number) for number in numbers])
        self._tune(rows, "classification", tuple(str(name) for name in self.classes_.tolist()))
        return self

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the probability of every class, in the order of `classes_`, for every text."""
        return np.asarray(softmax(self._outputs(X).astype(np.float64), axis=1))

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the predicted label of every text."""
        best = self._outputs(X).argmax(axis=1)  # first, since it refuses a model that is not fitted
        return np.asarray(self.classes_[best])


class FrostlineRegressor(RegressorMixin, _Tuning):  # type: ignore[misc]
    """A scikit-learn regressor on texts or pairs of texts: chosen layers of a pretrained encoder, tuned.

    Example:
        >>> texts, numbers = ["lovely", "dull"] * 20, [5.0, 1.0] * 20
        >>> model = frostline.FrostlineRegressor(plan="6,6,6", epochs=1).fit(texts, numbers)
        >>> model.predict(["a lovely evening"]).shape
        (1,)
    """

    def fit(self, X: Any, y: Any) -> FrostlineRegressor:  # noqa: N803
        """Tune on texts, or on pairs of texts, and the numbers to predict."""
        values = [float(value) for value in np.asarray(y, dtype=np.float64)]
        if not np.isfinite(values).all():
            raise DataError("y: contains values that are not finite")
        self._tune(_labelled(X, values), "regression", ())
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the predicted number of every text."""
        return self._outputs(X)[:, 0]


def _rows(texts: Any) -> Split:
    """Return texts or pairs as rows, from a list, an array, a Series or a frame of two columns."""
    if isinstance(texts, str):
        raise DataError("X: is a single text; give a list of texts")
    if type(texts).__name__ == "DataFrame":
        texts = texts.to_numpy()
    if isinstance(texts, np.ndarray) and texts.ndim == 2 and texts.shape[1] == 1:
        texts = texts[:, 0]
    return read_list(tuple(item) if isinstance(item, np.ndarray) else item for item in texts)


def _labelled(texts: Any, labels: Sequence[int] | Sequence[float]) -> Split:
    rows = _rows(texts)
    if len(rows) != len(labels):
        raise DataError(f"X has {len(rows):,} texts, but y has {len(labels):,} labels")
    if rows.choices is not None:
        raise DataError("X: contains questions with choices; give texts or pairs of texts")
    return replace(rows, labels=tuple(labels))
