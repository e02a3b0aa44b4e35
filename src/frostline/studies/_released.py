"""What released scripts did otherwise than the papers say, where several studies can be asked for it."""

from __future__ import annotations

from dataclasses import replace

from frostline.errors import OptionError
from frostline.records import Plan
from frostline.states.pooled import POOLINGS, Pooling


def check_pooling(study: str, states: str) -> Pooling:
    """How a text's tokens become one vector, by a study's option `states`; 'released' as paper 1's script did it."""
    for pooling in POOLINGS:
        if states == pooling:
            return pooling
    raise OptionError(f"study {study}: option states {states!r} must be one of {', '.join(POOLINGS)}")


def freeze_by_prefix(plan: Plan) -> Plan:
    """The plan with those layers frozen too whose name starts like a frozen one's.

    Scripts count layers from 0 and froze by the beginning of a parameter's name: freezing `layer.1` froze `layer.10`
    and `layer.11` as well.
    """
    frozen = {str(layer - 1) for layer in range(1, plan.head + 1) if layer not in plan.layers}
    kept = [layer for layer in plan.layers if not any(str(layer - 1).startswith(name) for name in frozen)]
    return plan if len(kept) == len(plan.layers) else replace(plan, layers=tuple(kept))
