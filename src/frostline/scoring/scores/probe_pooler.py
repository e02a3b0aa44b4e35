"""The probe of the script that Tamkin et al. 2020 released: a linear layer on the frozen pretrained pooler."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import GivenStates
from frostline.errors import MeasureError
from frostline.scoring.probes.holdout import finite_states
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.scores._tamkin_probe import TamkinRecipe, estimate_probe, options_of_recipe
from frostline.scoring.uncertainty import Estimate

_ROWS_AT_ONCE = 4096


@layer_score(
    fitted=True,
    better="high",
    paper="Tamkin et al. 2020, released script",
    needs="labels",
    is_probe=True,
    name="probe.pooler",
    pooling="first",
)
@options_of_recipe
def probe_pooler(evidence: Evidence, recipe: TamkinRecipe, uncertainty: bool) -> Estimate:
    """Held-out task metric of a linear probe on the frozen pretrained pooler of the layer's first token.

    The text of Tamkin et al. 2020 averages the states of a layer; their script cut BERT at the layer and trained the
    stock classifier alone, so that the probe read the first token through the pretrained pooler, which was trained on
    the last layer. The probe is trained like `probe.linear.paper`, in evaluation mode: the script also had the dropout
    of the frozen layers.

    Args:
        evidence: states of pooling 'first', labels, groups and the encoder.
        recipe: how the probe is trained and judged; its fields are the options of the score.
        uncertainty: compute an interval.
    """
    if evidence.encoder is None or not evidence.encoder.has_pretrained_pooler:
        raise MeasureError("probe.pooler needs an encoder with a pretrained pooler, such as BERT or ALBERT")
    return estimate_probe(read_through_pooler(evidence, evidence.encoder), recipe, uncertainty)


def read_through_pooler(evidence: Evidence, encoder: Encoder) -> Evidence:
    """Return the evidence with the pooler's outputs as states, also of the rows that probes are judged on."""
    states = finite_states(evidence, "first")
    pooled = torch.empty(states.shape)
    pooler = GivenStates(encoder.family, encoder.model).eval()
    with torch.no_grad():
        for layer, of_layer in enumerate(states):
            for start in range(0, states.shape[1], _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                pooled[layer, rows] = _pool(pooler, of_layer[rows].float().to(encoder.device))
    others = (evidence.check, evidence.held)
    check, held = (None if rows is None else read_through_pooler(rows, encoder) for rows in others)
    return replace(evidence, states={"all": pooled}, check=check, held=held)


def _pool(pooler: GivenStates, states: Tensor) -> Tensor:
    output: Tensor = pooler(inputs_embeds=states[:, None]).pooler_output  # texts of one token
    return output.cpu()
