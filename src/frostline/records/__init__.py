"""Frozen records that pass between the steps: written to JSON and read back, without tensors."""

from frostline.records.cost import Cost
from frostline.records.encoder_and_task import BaseEncoder, EncoderRef, Origin, TaskRef
from frostline.records.layer_scores import LayerScore, LayerScores
from frostline.records.plan import Plan
from frostline.records.proposal import Proposal
from frostline.records.recipe import Recipe
from frostline.records.trial import TrialResult, TrialSpec

__all__ = [
    "BaseEncoder",
    "Cost",
    "EncoderRef",
    "LayerScore",
    "LayerScores",
    "Origin",
    "Plan",
    "Proposal",
    "Recipe",
    "TaskRef",
    "TrialResult",
    "TrialSpec",
]
