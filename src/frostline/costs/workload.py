"""The texts that plans are tuned on, as far as costs depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from frostline.kernels.batch_layout import Ints
from frostline.training.shared_inputs import Workshop

if TYPE_CHECKING:
    from frostline.encoders.heads import HeadKind


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The texts that a plan is to be tuned on, as far as costs depend on them.

    Args:
        train: tokens of each training text.
        others: tokens of each text of the other splits.
        outputs: classes, or 1.
        kind: of task.
        texts_per_row: more than one for multiple choice.
    """

    train: Ints
    others: Ints
    outputs: int
    kind: HeadKind = "classification"
    texts_per_row: float = 1.0


def workload(workshop: Workshop) -> Workload:
    """The texts of a workshop's task that are seen before the choice, as far as costs depend on them."""
    task = workshop.task
    train, offsets = workshop.tokens("train")
    others = train.lengths[:0] if task.validation is None else workshop.tokens("validation")[0].lengths
    return Workload(
        train=train.lengths,
        others=np.asarray(others),
        outputs=len(task.label_names) if task.kind == "classification" else 1,
        kind=task.kind,
        texts_per_row=1.0 if offsets is None else len(train) / (len(offsets) - 1),
    )
