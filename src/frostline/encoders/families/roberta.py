"""RoBERTa: BERT's layers; positions start after the padding index, and the head has its own dense layer."""

from __future__ import annotations

from torch import Tensor

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Family, positions_after_padding_index


class Roberta(Family):
    """BERT's layers with fairseq's way of counting positions."""

    name = "roberta"
    title = "RoBERTa"
    examples = "roberta-base, roberta-large, distilroberta-base, granite-embedding-30m-english"
    colour = "#d55e00"

    def check(self, config: Config) -> str | None:
        """Refuse configurations without a padding token, from which positions are counted."""
        return "it has no pad_token_id in config.json" if config.pad_token_id is None else super().check(config)

    def max_length(self, config: Config) -> int:
        """Return two less than the size of the position table: positions up to the padding index are never used."""
        return int(config.max_position_embeddings - config.pad_token_id - 1)

    def positions(self, config: Config, ids: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """Return positions counted from the padding index."""
        return positions_after_padding_index(config.pad_token_id, ids, starts, lengths)


FAMILIES.add("roberta", Roberta())
