"""Information: the mutual information of labels and clusters that are fitted without labels."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from frostline.errors import MeasureError, OptionError
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate, from_folds
from frostline.states.cka import undefined_where_constant

_FOLDS = 10
_FEWEST = 100


@layer_score(fitted=True, better="high", paper="Xie et al. 2022, appendix C.7", balanced=True)
def information(evidence: Evidence, *, uncertainty: bool = True, clusters: int = 10) -> Estimate:
    """Mutual information, in nats, of k-means clusters and labels on unseen texts; high means that classes clump.

    Clusters are fitted on nine tenths of the texts; the held-out tenth is assigned to its nearest clusters. All ten
    folds in turn. Xie et al. 2022 find it near zero everywhere: clusters fitted without labels seldom follow them. Few
    texts and many clusters have some information by chance; the chance level is its expectation over all orders of
    the labels of the held-out texts.

    Args:
        evidence: states, labels and groups.
        uncertainty: compute intervals from the folds.
        clusters: number of clusters; Xie et al. 2022 tuned it and do not state it.
    """
    if clusters < 2:
        raise OptionError(f"information: clusters {clusters} must be 2 or more")
    labels = torch.unique(evidence.labels, return_inverse=True)[1]
    fewest = max(_FEWEST, _FOLDS * clusters)
    if len(labels) < fewest:
        raise MeasureError(f"information needs at least {fewest} texts, but got {len(labels)}")
    folds = evidence.blocks(_FOLDS)
    states = evidence.states[evidence.pooling]
    of_folds = torch.stack(
        [
            torch.stack([_held_out(layer, labels, folds == fold, clusters, evidence.seed) for layer in states])
            for fold in range(_FOLDS)
        ]
    )
    values, by_chance = (undefined_where_constant(part, states) for part in of_folds.unbind(-1))
    return replace(from_folds(values, uncertainty=uncertainty), chance=by_chance.mean(0))


def _held_out(states: Tensor, labels: Tensor, held_out: Tensor, clusters: int, seed: int) -> Tensor:
    """Return the mutual information on held-out texts, and its expectation by chance."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

    model = MiniBatchKMeans(clusters, n_init=3, random_state=seed).fit(states[~held_out].numpy())
    nearest, true = model.predict(states[held_out].numpy()), labels[held_out].numpy()
    table = contingency_matrix(true, nearest, sparse=True).astype("int64")
    by_chance = expected_mutual_information(table, len(true))
    return torch.tensor([mutual_info_score(true, nearest), by_chance], dtype=torch.float64)
