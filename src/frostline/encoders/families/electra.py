"""ELECTRA: BERT's layers; small sizes have narrow embeddings and a projection, which belongs to the embeddings."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Family, Model
from frostline.kernels.batch_layout import Reads


class Electra(Family):
    """BERT's layers over embeddings that may be narrower than the layers."""

    name = "electra"
    title = "ELECTRA"
    examples = "google/electra-small-discriminator, google/electra-base-discriminator"
    colour = "#009e73"
    embedding_paths = ("embeddings", "embeddings_project")
    pooler_path = None

    def head_reads(self, config: Config, kind: str) -> Reads:
        """Return the tokens that the head reads; the multiple-choice head has a configurable summary."""
        return Reads.FIRST if kind != "multiple choice" or config.summary_type == "first" else Reads.ALL

    def embed(self, model: Model, ids: Tensor, types: Tensor, positions: Tensor) -> Tensor:
        """Return state 0, after the projection to the layers' width."""
        states = super().embed(model, ids, types, positions)
        project = getattr(model, "embeddings_project", None)
        return states if project is None else cast(Tensor, project(states))


FAMILIES.add("electra", Electra())
