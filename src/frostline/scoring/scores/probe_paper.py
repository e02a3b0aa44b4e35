"""The linear probe as in Tamkin et al. 2020."""

from __future__ import annotations

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.scores._tamkin_probe import TamkinRecipe, estimate_probe, options_of_recipe
from frostline.scoring.uncertainty import Estimate


@layer_score(
    fitted=True,
    better="high",
    paper="Tamkin et al. 2020, section 3",
    needs="labels",
    is_probe=True,
    name="probe.linear.paper",
    pooling="all",
)
@options_of_recipe
def probe_linear_paper(evidence: Evidence, recipe: TamkinRecipe, uncertainty: bool) -> Estimate:
    """Held-out task metric of a linear softmax probe on the mean of all tokens, trained as in Tamkin et al. 2020.

    Adam, early stopping, at most 40 epochs, the mean of 8 trials. Every trial draws its own held-out fifth, its own
    tenth of the other rows for early stopping on the loss, its own initial weights and order of rows; where probes are
    judged on another split, all trials share it. The paper trains on the whole dataset with rate 2e-5 and batches of 8;
    a sample needs a larger rate. States are not standardised. The uncertainty comes from resampling rows and trials.

    Args:
        evidence: states of pooling 'all', labels and groups.
        recipe: how the probe is trained and judged; its fields are the options of the score.
        uncertainty: compute an interval.
    """
    return estimate_probe(evidence, recipe, uncertainty)
