"""Fisher information as in the released script of Lodha et al. 2023, which differs from the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from frostline.encoders.tokens import Tokens
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.scores.fisher import EXAMPLES, estimate_fisher
from frostline.scoring.uncertainty import Estimate


@layer_score(fitted=True, name="fisher.released", better="high", paper="2, its script", needs="labels")
def fisher_released(evidence: Evidence, *, uncertainty: bool = True) -> Estimate:
    """Size of the Fisher diagonal as in the script of Lodha et al. 2023: one text, logits, padding read as text.

    Three differences from `fisher`: a single example instead of about 100; squared gradients of the labels' logits
    instead of their log-probabilities, weighted by the labels' probabilities; and no attention mask, so that every
    layer attends to the padding that follows the text, up to the longest of 100 texts.
    """
    if evidence.encoder is not None and evidence.tokens is not None:
        tokens = _pad_as_text(evidence.tokens, evidence.encoder.config.pad_token_id or 0)
        evidence = replace(evidence, tokens=tokens)
    return estimate_fisher(evidence, label="logit", examples=1, uncertainty=uncertainty)


def _pad_as_text(tokens: Tokens, pad: int) -> Tokens:
    """Return the texts with padding as if it were text: as long as the longest of the first 100, or cut there."""
    length = int(tokens.lengths[:EXAMPLES].max())
    ids = np.full((len(tokens), length), pad, dtype=np.int64)
    types = np.zeros_like(ids)
    for row, start in enumerate(tokens.starts):
        kept = min(length, int(tokens.lengths[row]))
        ids[row, :kept] = tokens.ids[start : start + kept]
        types[row, :kept] = tokens.types[start : start + kept]
    lengths = np.full(len(tokens), length, dtype=np.int64)
    return Tokens(ids=ids.reshape(-1), types=types.reshape(-1), lengths=lengths, truncated=tokens.truncated)
