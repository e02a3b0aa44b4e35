"""Scores of any number of rows, from sums over chunks of texts: only one chunk is in memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from frostline.encoders.encoder import Encoder
from frostline.progress import Progress, Step
from frostline.records import LayerScore
from frostline.scoring.scores import Score
from frostline.scoring.to_records import make_record
from frostline.scoring.uncertainty import Estimate
from frostline.states.moments import ClassMoments
from frostline.states.pooled import Pooling, pooled_states
from frostline.tasks import Split

_TEXTS_PER_CHUNK = 2_000


def stream_scores(
    encoder: Encoder,
    split: Split,
    chosen: Sequence[Score],
    *,
    pooling: Pooling,
    max_length: int | None,
    progress: Progress,
) -> tuple[dict[str, LayerScore], int]:
    """Return the scores from sums over all rows, and the number of texts that were cut."""
    classes, labels = torch.unique(torch.tensor(split.labels), return_inverse=True)
    moments: ClassMoments | None = None
    truncated = 0
    for start in range(0, len(split), _TEXTS_PER_CHUNK):
        part = split.take(range(start, min(start + _TEXTS_PER_CHUNK, len(split))))
        tokens = encoder.tokenize(part.texts, part.pairs, max_length=max_length)
        truncated += tokens.truncated
        states = pooled_states(encoder, tokens, poolings=[pooling])[pooling]
        batch = ClassMoments.of(
            states,
            labels[start : start + len(part)],
            classes=len(classes),
            references=None if moments is None else moments.references,
        )
        moments = batch if moments is None else moments.merge(batch)
        progress(Step(stage="running the encoder", done=moments.count, total=len(split)))
    if moments is None:
        raise ValueError("no texts")
    scores = {
        score.name: make_record(score, Estimate(values=score.from_moments(moments)), seed=0, seconds=0.0)
        for score in chosen
        if score.from_moments is not None
    }
    return scores, truncated
