"""How long and with which learning rates plans of a kind are trained: what suits them, and what paper 1 searched."""

from __future__ import annotations

from frostline.plans.methods import METHODS
from frostline.records import Plan

_FEW = 3  # layers; the paper's (b, L, L) plans tune at most so many, its (l*+1, L, L) plans more


_HEAD_ONLY = 10  # times as many epochs: a head alone learns slowly, and costs next to nothing


def typical_epochs(plan: Plan, epochs: int) -> int:
    """How many epochs a race gives a plan where plans that tune layers have so many."""
    return epochs if plan.layers else _HEAD_ONLY * epochs


def typical_rate(plan: Plan, width: int) -> float:
    """A learning rate that plans of this kind train well with, to two digits.

    The usual rates are for encoders of width 768; narrower ones take higher rates, and so do plans that train a part of
    the layers.

    Args:
        plan: what is tuned.
        width: of the encoder's states.
    """
    if not plan.layers:
        return 2e-3
    usual = METHODS[plan.method].learning_rate * 768 / width
    if plan.method == "full" and len(plan.layers) <= plan.head / 2:
        usual *= 4
    return float(f"{usual:.1e}")


def paper_rates(plan: Plan, depth: int) -> tuple[float, ...]:
    """The learning rates that paper 1 tries for plans of this kind, by method.

    Plans that end at the best layer reuse the set of plans that end at the top; what the paper has no set for gets that
    one too.

    Args:
        plan: what is tuned.
        depth: of the whole encoder.
    """
    bottom, top = (plan.layers[0], plan.layers[-1]) if plan.layers else (0, 0)
    in_a_row = len(plan.layers) == top - bottom + 1  # what is drawn at random is none of the paper's triples
    is_whole = in_a_row and (bottom, top) == (1, depth)
    is_lower_part = in_a_row and bottom == 1 and top == plan.head < depth
    is_upper_part = in_a_row and top == plan.head == depth and len(plan.layers) > _FEW
    if METHODS[plan.method].adds_parameters:
        return (1e-5, 3e-5, 1e-4) if is_whole or is_lower_part or is_upper_part else (3e-5, 1e-4, 3e-4)
    if is_whole:
        return (1e-6, 5e-6, 8e-6, 1e-5, 2e-5)
    if is_lower_part:
        return (5e-6, 1e-5, 5e-5, 1e-4)
    if is_upper_part:
        return (1e-6, 3e-6, 1e-5, 3e-5)
    return (8e-6, 1e-5, 2e-5, 3e-5, 5e-5)
