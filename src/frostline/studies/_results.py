"""The result of a trial that measures a tuned model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from frostline.records import TrialResult
from frostline.studies._tables import judged_split
from frostline.training.result import Tuned
from frostline.trials.results import result_of


def judged_result(tuned: Tuned, values: Mapping[str, Any]) -> TrialResult:
    """Return the record of a tuned model with further values, and with predictions of the reported rows only."""
    split, _ = judged_split(tuned.task)
    result = result_of(tuned)
    return replace(result, predictions={split: result.predictions[split]}, values=values)
