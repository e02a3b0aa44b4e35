"""The workload of tuning: numbers and lengths of texts, which costs depend on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frostline.encoders.heads import HeadKind
from frostline.kernels.batch_layout import Ints
from frostline.training.shared_inputs import SharedInputs


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The texts that a plan is tuned on, by their lengths.

    Args:
        train: number of tokens of each training text.
        others: number of tokens of each text of the other splits.
        outputs: number of classes, or 1.
        kind: kind of task.
        texts_per_row: number of choices for multiple choice, else 1.
    """

    train: Ints
    others: Ints
    outputs: int
    kind: HeadKind = "classification"
    texts_per_row: float = 1.0


def make_workload(shared: SharedInputs) -> Workload:
    """Return the numbers and lengths of the training and validation texts, which costs depend on."""
    task = shared.task
    train, offsets = shared.tokens("train")
    others = train.lengths[:0] if task.validation is None else shared.tokens("validation")[0].lengths
    return Workload(
        train=train.lengths,
        others=np.asarray(others),
        outputs=task.outputs,
        kind=task.kind,
        texts_per_row=1.0 if offsets is None else len(train) / (len(offsets) - 1),
    )
