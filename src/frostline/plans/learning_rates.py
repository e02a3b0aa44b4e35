"""The learning rate and the epochs of a plan, by method, width and number of layers; and the rates of Xie et al. 2022.

`run`, `tune` and the estimators all get their defaults from here.
"""

from __future__ import annotations

from frostline.plans.methods import METHODS, PlanKind
from frostline.records import Plan

EPOCHS = 3
# Factors on a plan's rate, for the members of a soup. Members at half and twice the rate are as good on easy tasks; on
# MNLI they ended too far from each other, and their mean was worse than any of them. A third member adds little.
SOUP = (1.0, 1.0)
_HEAD_ONLY_EPOCHS = 10  # factor: a head alone learns slowly, and costs next to nothing
_HEAD_ONLY_RATE = 2e-3
_HEAD_RATE = 2e-3  # of the head above tuned layers, for encoders of width 768
_USUAL_WIDTH = 768
_FEW_LAYERS = 3  # the paper's (b, L, L) plans tune at most this many layers, its (l*+1, L, L) plans more


def epochs_for(plan: Plan, epochs: int = EPOCHS) -> int:
    """Return the number of epochs of a plan; `epochs` is that of plans that tune layers."""
    return epochs if plan.layers else _HEAD_ONLY_EPOCHS * epochs


def learning_rate_for(plan: Plan, width: int) -> float:
    """Return a learning rate that suits the plan, to two digits.

    The rate of a method is for encoders of width 768; narrower ones get higher rates, and so do plans that train at
    most half of the layers.

    Args:
        plan: the plan.
        width: width of the encoder's states.
    """
    if not plan.layers:
        return _HEAD_ONLY_RATE
    usual = METHODS[plan.method].learning_rate * _USUAL_WIDTH / width
    if plan.method == "full" and len(plan.layers) <= plan.head / 2:
        usual *= 4
    return float(f"{usual:.1e}")


def head_rate_for(width: int) -> float:
    """Return a learning rate that suits the head above tuned layers, to two digits.

    A head starts from nothing and layers from much, so that it needs a far higher rate than they do; with the same one,
    it learns so late that the layers have overfitted by then, the more classes there are the worse.
    """
    return float(f"{_HEAD_RATE * _USUAL_WIDTH / width:.1e}")


def scale_paper_rate(rate: float, width: int) -> float:
    """Return a paper's learning rate for an encoder of this width, to three digits.

    The papers use the same rates for base and large encoders (widths 768 and 1,024), so these get them as printed; they
    are too low for narrower encoders, which get proportionally higher ones.
    """
    return rate if width >= _USUAL_WIDTH else float(f"{rate * _USUAL_WIDTH / width:.3g}")


def paper_rates(plan: Plan, depth: int) -> tuple[float, ...]:
    """Return the learning rates that Xie et al. (2022) try for plans of this kind, by method.

    Plans that end at the best layer use the rates of plans that end at the top, and so do plans that the paper does not
    have. A method that the paper does not have is tried around its own default rate.

    Args:
        plan: the plan.
        depth: number of layers of the whole encoder.
    """
    return METHODS[plan.method].rates[_kind(plan, depth)]


def _kind(plan: Plan, depth: int) -> PlanKind:
    bottom, top = (plan.layers[0], plan.layers[-1]) if plan.layers else (0, 0)
    if len(plan.layers) != top - bottom + 1:
        return "few"  # layers drawn at random are not in the paper
    if (bottom, top) == (1, depth):
        return "whole"
    if bottom == 1 and top == plan.head < depth:
        return "lower"
    return "upper" if top == plan.head == depth and len(plan.layers) > _FEW_LAYERS else "few"
