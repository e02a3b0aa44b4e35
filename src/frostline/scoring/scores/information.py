"""Information: what clusters found without labels tell about the labels."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from frostline.errors import MeasureError
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, from_independent
from frostline.states.cka import undefined_where_constant

_FOLDS = 10
_CLUSTERS = 10


@layer_score(fitted=True, better="high", paper="1, appendix C.7", balanced=True)
def information(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Mutual information, in nats, of k-means clusters and labels on unseen texts; high means that classes clump.

    Ten clusters are fitted on nine tenths of the texts; the tenth that is left is given to its nearest clusters. All
    ten folds in turn. The paper finds it near zero everywhere: clusters found without labels seldom follow them.
    """
    labels = torch.unique(evidence.labels, return_inverse=True)[1]
    if len(labels) < _FOLDS * _CLUSTERS:
        raise MeasureError(f"information needs at least {_FOLDS * _CLUSTERS} texts, but got {len(labels)}")
    folds = evidence.blocks(_FOLDS)
    states = evidence.states[evidence.pooling]
    scores = torch.stack(
        [
            torch.stack([_held_out(layer, labels, folds == fold, evidence.seed) for layer in states])
            for fold in range(_FOLDS)
        ]
    )
    estimate = from_independent(undefined_where_constant(scores, states), method="folds")
    return estimate if uncertainty else Estimate(values=estimate.values)


def _held_out(states: Tensor, labels: Tensor, held_out: Tensor, seed: int) -> Tensor:
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(_CLUSTERS, n_init=3, random_state=seed).fit(states[~held_out].numpy())
    clusters = torch.as_tensor(model.predict(states[held_out].numpy()).astype(np.int64))
    return mutual_information(clusters, labels[held_out])


def mutual_information(one: Tensor, two: Tensor) -> Tensor:
    """Mutual information of two integer columns, in nats, from their joint counts."""
    joint = torch.zeros(int(one.max()) + 1, int(two.max()) + 1, dtype=torch.float64)
    joint.index_put_((one, two), torch.ones(len(one), dtype=torch.float64), accumulate=True)
    joint /= joint.sum()
    apart = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
    return torch.where(joint > 0, joint * (joint / apart).log(), 0.0).sum()
