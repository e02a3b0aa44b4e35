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
    from frostline.api._estimators import FrostlineClassifier as FrostlineClassifier
    from frostline.api._estimators import FrostlineRegressor as FrostlineRegressor
    from frostline.api._measure import measure as measure
    from frostline.api._plan import plan as plan
    from frostline.api._predict import evaluate as evaluate
    from frostline.api._predict import predict as predict
    from frostline.api._run import run as run
    from frostline.api._study import StudyOptions as StudyOptions
    from frostline.api._study import study as study
    from frostline.api._tune import tune as tune
    from frostline.encoders.encoder import Encoder as Encoder
    from frostline.encoders.loading import load_encoder as load_encoder
    from frostline.encoders.parameter_counts import count_parameters as count_parameters
    from frostline.errors import FrostlineError as FrostlineError
    from frostline.errors import UserError as UserError
    from frostline.records import LayerScores as LayerScores
    from frostline.records import Plan as Plan
    from frostline.records import Recipe as Recipe
    from frostline.records.budget import Budget as Budget
    from frostline.records.compute import Compute as Compute
    from frostline.report.pages import write_report as write_report
    from frostline.tasks import Task as Task
    from frostline.tasks import load_task as load_task

__version__ = "0.1.0"

_HOMES = {
    "Budget": "records.budget",
    "Compute": "records.compute",
    "Encoder": "encoders.encoder",
    "FrostlineClassifier": "api._estimators",
    "FrostlineError": "errors",
    "FrostlineRegressor": "api._estimators",
    "LayerScores": "records",
    "Plan": "records",
    "Recipe": "records",
    "StudyOptions": "api._study",
    "Task": "tasks",
    "UserError": "errors",
    "count_parameters": "encoders.parameter_counts",
    "evaluate": "api._predict",
    "load_encoder": "encoders.loading",
    "load_task": "tasks",
    "measure": "api._measure",
    "plan": "api._plan",
    "predict": "api._predict",
    "run": "api._run",
    "study": "api._study",
    "tune": "api._tune",
    "write_report": "report.pages",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'frostline' has no attribute {name!r}")
    importlib.import_module("frostline.report.notebook")  # how notebooks show records, which know no view
    return getattr(importlib.import_module(f"frostline.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
