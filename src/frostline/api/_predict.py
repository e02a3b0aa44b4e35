"""Use a tuned model: predictions for new texts, and metrics on labelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError
from frostline.kernels.device import computing
from frostline.prediction.loading import Predictor, load_tuned
from frostline.prediction.predict import Evaluated, Predictions, evaluate_split, predict_rows
from frostline.progress import Progress, silent
from frostline.tasks import Task, find_preset, load_task
from frostline.tasks.task import Kind
from frostline.tasks.unlabelled import read_unlabelled

_SPLITS = ("train", "validation", "test", "all")


@computing()
def predict(
    folder: str | Path | Predictor,
    data: Any,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    choices: str | Sequence[str] | None = None,
    encoder: Encoder | str | Path | None = None,
    progress: Progress = silent,
) -> Predictions:
    """Return the labels that a tuned model predicts for texts, with their probabilities.

    Args:
        folder: a tuned model's folder, or a loaded model.
        data: a file, DataFrame or Dataset with a column of texts (labels are not needed), or a list: of texts, of pairs
            (text, second text), or of questions (text, [choices]).
        text: the column with the text; guessed from common names if not given, like the next two.
        text_pair: the column with the second text.
        choices: for multiple choice, the column or columns with the candidates.
        encoder: the encoder of a model that is not a stock one, if it has moved since tuning.
        progress: progress callback.

    Example:
        >>> _ = frostline.tune(task="reviews.csv", plan="6,6,6", output="tuned")
        >>> frostline.predict("tuned", ["a lovely evening"]).labels
        [...]
    """
    rows, notes = read_unlabelled(data, text=text, text_pair=text_pair, choices=choices)
    model = _to_model(folder, encoder)
    is_guessed = text_pair is None and not isinstance(data, list | tuple)
    return predict_rows(model, rows, notes, is_pair_guessed=is_guessed, progress=progress)


@computing()
def evaluate(
    folder: str | Path | Predictor,
    task: Task | Any,
    *,
    split: str = "test",
    encoder: Encoder | str | Path | None = None,
    progress: Progress = silent,
) -> Evaluated:
    """Return the task's metrics of a tuned model on labelled rows.

    Args:
        folder: a tuned model's folder, or a loaded model.
        task: a Task, or what `load_task` takes: a file, preset name, hub id, DataFrame or Dataset.
        split: train, validation or test, as given or split off from a file; or all rows.
        encoder: the encoder of a model that is not a stock one, if it has moved since tuning.
        progress: progress callback.

    Example:
        >>> _ = frostline.tune(task="reviews.csv", plan="6,6,6", output="tuned")
        >>> sorted(frostline.evaluate("tuned", "reviews.csv").metrics)
        ['accuracy']
    """
    if split not in _SPLITS:
        raise OptionError(f"split {split!r}: must be one of {', '.join(_SPLITS)}")
    model = _to_model(folder, encoder)
    if not isinstance(task, Task):
        task = load_task(task, kind=kind_to_ask(model, task), splits=split != "all")
    return evaluate_split(model, task, split, progress=progress)


def kind_to_ask(model: Predictor, data: Any) -> Kind | None:
    """Return the kind to read data as: that of the model for files; presets know their own kind."""
    is_preset = isinstance(data, str) and not Path(data).exists() and find_preset(data) is not None
    return None if is_preset else model.kind


def _to_model(given: str | Path | Predictor, encoder: Encoder | str | Path | None) -> Predictor:
    return given if isinstance(given, Predictor) else load_tuned(given, encoder=encoder)
