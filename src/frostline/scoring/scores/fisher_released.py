"""Fisher information as paper 2's released script took it, to rerun what it did and not what the paper says."""

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
    """Size of the Fisher diagonal as paper 2's script took it: one text, logits, padding read as text.

    Three differences to `fisher`: a single example in place of about 100; squared gradients of the labels' logits in
    place of their log-probabilities, weighted by the labels' probabilities; and no attention mask, so that the text is
    followed by padding, up to the longest of 100 texts, that every layer takes for words.
    """
    if evidence.encoder is not None and evidence.tokens is not None:
        pad = evidence.encoder.config.pad_token_id
        evidence = replace(evidence, tokens=padded_as_text(evidence.tokens, pad or 0))
    return estimate_fisher(evidence, label="logit", examples=1, uncertainty=uncertainty)


def padded_as_text(tokens: Tokens, pad: int) -> Tokens:
    """Every text with padding after it as if that were text: as long as the longest of the first 100, or cut there."""
    length = int(tokens.lengths[:EXAMPLES].max())
    ids = np.full((len(tokens), length), pad, dtype=np.int64)
    types = np.zeros((len(tokens), length), dtype=np.int64)
    for row, start in enumerate(tokens.starts):
        piece = slice(start, start + min(length, int(tokens.lengths[row])))
        ids[row, : piece.stop - piece.start] = tokens.ids[piece]
        types[row, : piece.stop - piece.start] = tokens.types[piece]
    lengths = np.full(len(tokens), length, dtype=np.int64)
    return Tokens(ids=ids.reshape(-1), types=types.reshape(-1), lengths=lengths, truncated=tokens.truncated)
