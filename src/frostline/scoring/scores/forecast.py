"""The forecast as a layer score: what tuning one layer alone gains."""

from __future__ import annotations

from frostline.scoring.forecast import DIRECTIONS, HALVINGS, RANK, HeadName, make_forecast
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate


@layer_score(fitted=True, better="high", paper="Jacot et al. 2018, cross-fitted", needs="labels")
def forecast(
    evidence: Evidence,
    *,
    uncertainty: bool = True,
    head: HeadName = "family",
    directions: int = DIRECTIONS,
    halvings: int = HALVINGS,
    rank: int = RANK,
) -> Estimate:
    """Forecast of the squared error that tuning the layer alone saves, to first order; high means tune it.

    Kernel regression of a probe's errors on other rows with the gradients of the layer's parameters, next to the head's
    own. See `frostline.scoring.forecast`, which forecasts any set of layers. Layer 0 is the embeddings. The uncertainty
    is that of the judged rows, not that of the gradients' projections or of halving the rows.

    Args:
        evidence: labels, groups, encoder and tokens.
        uncertainty: resample the rows' errors.
        head: 'family' for the family's own head, or 'mean' for the mean-pooled linear one.
        directions: most directions of the probe's outputs whose gradients are taken.
        halvings: number of times that the rows are halved.
        rank: width of the random projections of gradients.
    """
    made = make_forecast(evidence, head=head, directions=directions, halvings=halvings, rank=rank)
    return made.gains([(layer,) for layer in range(made.depth + 1)], uncertainty=uncertainty)
