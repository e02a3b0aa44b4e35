"""Similarity with the labels: CKA between a layer's states and the labels."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, from_jackknife
from frostline.states.cka import cka_leaving_out, unbiased_hsic
from frostline.states.moments import ClassMoments


def _from_moments(moments: ClassMoments) -> Tensor:
    centred = moments.centred()
    counts, count = centred.counts.double(), centred.count
    labels = torch.eye(len(counts), dtype=torch.float64) - counts / count  # each class's centred row
    lengths = labels.square().sum(1)
    total = torch.einsum("lcdd->l", centred.seconds)
    cross = centred.sums.transpose(1, 2) @ labels  # X'Y of the centred states
    own_labels = (labels * counts[:, None]).T @ labels
    of_labels = (counts * lengths).sum()
    together = torch.einsum("lcdd,c->l", centred.seconds, lengths)
    shared = unbiased_hsic(cross.square().sum((1, 2)), together, total * of_labels, count)
    own = unbiased_hsic(centred.seconds.sum(1).square().sum((1, 2)), centred.fourths, total * total, count)
    target = unbiased_hsic(own_labels.square().sum(), (counts * lengths.square()).sum(), of_labels * of_labels, count)
    return moments.undefined_where_constant(shared / (own.clamp(min=0) * target).sqrt())


@layer_score(fitted=True, better="high", paper="CKA with labels", needs="labels", from_moments=_from_moments)
def label_similarity(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Similarity (unbiased linear CKA) of the states with the labels; high means that the labels shape the layer.

    Labels are one column per class, or the value to predict. 0 means no linear trace of the labels; 1 would mean that
    states vary with the labels and with nothing else. Undefined where all texts have the same state.
    """
    blocks = evidence.jackknife_blocks(uncertainty=uncertainty)
    target = label_columns(evidence.labels, has_classes=evidence.has_classes)
    return from_jackknife(cka_leaving_out(evidence.states[evidence.pooling], evidence.own_hsic(blocks), target, blocks))


def label_columns(labels: Tensor, *, has_classes: bool) -> Tensor:
    """Return the labels as numbers to compare with states: one column per class, or one column of values."""
    if not has_classes:
        return labels.double()[:, None]
    return torch.nn.functional.one_hot(torch.unique(labels, return_inverse=True)[1]).double()
