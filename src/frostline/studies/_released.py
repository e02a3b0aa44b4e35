"""What released scripts did differently from the papers, for the studies that offer it as an option."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from frostline.records import Plan
from frostline.studies import Ask

# The script of Tamkin et al. 2020: the stock classifier on the first token, no warm-up, 128 tokens, the last weights.
TAMKIN_SCRIPT: Mapping[str, Any] = {"head": "family", "warmup": 0.0, "max_length": 128, "select": "last"}


def released_recipe(ask: Ask) -> dict[str, Any]:
    """Return what the script of Tamkin et al. 2020 trained otherwise than the text says, but for what the user set."""
    return {name: value for name, value in TAMKIN_SCRIPT.items() if name not in ask.given}


def freeze_by_prefix(plan: Plan) -> Plan:
    """Return the plan with layers frozen as well whose name starts like that of a frozen layer.

    Scripts count layers from 0 and froze parameters by the beginning of their names: freezing `layer.1` also froze
    `layer.10` and `layer.11`.
    """
    frozen = {str(layer - 1) for layer in range(1, plan.head + 1) if layer not in plan.layers}
    kept = tuple(layer for layer in plan.layers if not any(str(layer - 1).startswith(name) for name in frozen))
    return plan if kept == plan.layers else replace(plan, layers=kept)
