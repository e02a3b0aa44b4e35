"""Freezing the lower layers, as in Lee et al. 2019."""

from __future__ import annotations

from frostline.errors import OptionError
from frostline.plans.strategies import Value, strategy
from frostline.records import LayerScores, Plan


def _quarters(depth: int) -> list[dict[str, Value]]:
    return [{"n": count} for count in sorted({depth // 4, depth // 2, 3 * depth // 4}) if count]


@strategy(paper="Lee et al. 2019", name="freeze-n", proposed=_quarters)
def freeze_n(depth: int, scores: LayerScores | None, *, seed: int, n: int = 0) -> Plan:
    """Freeze the embeddings and the first n layers and tune the rest; 0 is full fine-tuning."""
    if n > depth:
        raise OptionError(f"strategy freeze-n: {n} layers to freeze, but the encoder has layers 1..{depth}")
    if n == 0:
        return Plan.full(depth)
    because = f"the first {n} of {depth} layers stay frozen"
    return Plan(layers=tuple(range(n + 1, depth + 1)), head=depth, because=because)
