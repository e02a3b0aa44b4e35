"""Information: the mutual information of labels and clusters that are fitted without labels."""

from __future__ import annotations

import torch
from torch import Tensor

from frostline.errors import MeasureError
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, from_folds
from frostline.states.cka import undefined_where_constant

_FOLDS = 10
_CLUSTERS = 10


@layer_score(fitted=True, better="high", paper="Xie et al. 2022, appendix C.7", balanced=True)
def information(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Mutual information, in nats, of k-means clusters and labels on unseen texts; high means that classes clump.

    Ten clusters are fitted on nine tenths of the texts; the held-out tenth is assigned to its nearest clusters. All ten
    folds in turn. Xie et al. 2022 find it near zero everywhere: clusters fitted without labels seldom follow them.
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
    return from_folds(undefined_where_constant(scores, states), uncertainty=uncertainty)


def _held_out(states: Tensor, labels: Tensor, held_out: Tensor, seed: int) -> Tensor:
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import mutual_info_score

    model = MiniBatchKMeans(_CLUSTERS, n_init=3, random_state=seed).fit(states[~held_out].numpy())
    clusters = model.predict(states[held_out].numpy())
    return torch.tensor(mutual_info_score(labels[held_out].numpy(), clusters), dtype=torch.float64)
