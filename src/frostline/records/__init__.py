"""Frozen records that pass between the steps: written to JSON and read back, without tensors."""

from frostline.records._version import FORMAT_VERSION as FORMAT_VERSION
from frostline.records.cost import Cost as Cost
from frostline.records.encoder_and_task import BaseEncoder as BaseEncoder
from frostline.records.encoder_and_task import EncoderRef as EncoderRef
from frostline.records.encoder_and_task import Origin as Origin
from frostline.records.encoder_and_task import TaskRef as TaskRef
from frostline.records.layer_scores import LayerScore as LayerScore
from frostline.records.layer_scores import LayerScores as LayerScores
from frostline.records.plan import Plan as Plan
from frostline.records.proposal import Proposal as Proposal
from frostline.records.recipe import Recipe as Recipe
from frostline.records.trial import TrialResult as TrialResult
from frostline.records.trial import TrialSpec as TrialSpec
