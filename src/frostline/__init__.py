"""Frostline: which layers of a pretrained text encoder to tune, freeze and drop, and where to put the head.

    import frostline

    scores = frostline.measure("bert-base-uncased", "reviews.csv")
    scores["variability"].best
    frostline.tune("bert-base-uncased", "reviews.csv", plan="best-down", scores=scores, output="tuned")
    frostline.predict("tuned", ["what a film"]).labels

Names are imported on first use, so that `import frostline` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frostline.budget import Budget as Budget
    from frostline.checkpoint import load_encoder as load_encoder
    from frostline.encoder import Encoder as Encoder
    from frostline.errors import FrostlineError as FrostlineError
    from frostline.errors import UserError as UserError
    from frostline.measurement import measure as measure
    from frostline.parameters import count_parameters as count_parameters
    from frostline.planning import plan as plan
    from frostline.prediction import evaluate as evaluate
    from frostline.prediction import predict as predict
    from frostline.records import LayerScores as LayerScores
    from frostline.records import Plan as Plan
    from frostline.records import Recipe as Recipe
    from frostline.report import write_report as write_report
    from frostline.running import run as run
    from frostline.sklearn_face import FrostlineClassifier as FrostlineClassifier
    from frostline.sklearn_face import FrostlineRegressor as FrostlineRegressor
    from frostline.studying import study as study
    from frostline.tasks import Task as Task
    from frostline.tasks import load_task as load_task
    from frostline.tuning import tune as tune

__version__ = "0.1.0"

_HOMES = {
    "Budget": "budget",
    "Encoder": "encoder",
    "FrostlineClassifier": "sklearn_face",
    "FrostlineError": "errors",
    "FrostlineRegressor": "sklearn_face",
    "LayerScores": "records",
    "Plan": "records",
    "Recipe": "records",
    "Task": "tasks",
    "UserError": "errors",
    "count_parameters": "parameters",
    "evaluate": "prediction",
    "load_encoder": "checkpoint",
    "load_task": "tasks",
    "measure": "measurement",
    "plan": "planning",
    "predict": "prediction",
    "run": "running",
    "study": "studying",
    "tune": "tuning",
    "write_report": "report",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'frostline' has no attribute {name!r}")
    return getattr(importlib.import_module(f"frostline.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
