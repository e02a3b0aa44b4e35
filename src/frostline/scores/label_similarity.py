"""Similarity with the labels: CKA between a layer's states and the labels themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.estimate import Estimate, from_jackknife
from frostline.evidence import Evidence
from frostline.scores import JACKKNIFE_BLOCKS, fitted_score
from frostline.similarity import cka_leaving_out


@fitted_score(better="high", paper="CKA with labels", needs="labels")
def label_similarity(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Similarity (unbiased linear CKA) of the states with the labels; high means that the labels shape the layer.

    Labels are one column per class, or the value to predict. 0 means no linear trace of the labels; 1 would mean that
    states vary with the labels and with nothing else. Undefined where all texts have the same state.
    """
    blocks = evidence.blocks(JACKKNIFE_BLOCKS) if uncertainty else None
    target = label_columns(evidence.labels, has_classes=evidence.has_classes)
    states = evidence.states[evidence.pooling]
    rows = torch.stack([cka_leaving_out(layer, target.to(layer.dtype), blocks) for layer in states], dim=1)
    return from_jackknife(rows[0], rows[1:]) if uncertainty else Estimate(values=rows[0])


def label_columns(labels: Tensor, *, has_classes: bool) -> Tensor:
    """Labels as numbers to compare with states: one column per class, or one column of values."""
    if not has_classes:
        return labels.double()[:, None]
    return torch.nn.functional.one_hot(torch.unique(labels, return_inverse=True)[1]).double()
