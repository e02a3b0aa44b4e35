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
    has_token_types = False

    def check(self, config: Config) -> str | None:
        """Positions are counted from the padding token, so there must be one."""
        return "it has no pad_token_id in config.json" if config.pad_token_id is None else super().check(config)

    def max_length(self, config: Config) -> int:
        """Two fewer than the position table holds: the padding index and those below it are never given to a token."""
        return int(config.max_position_embeddings - config.pad_token_id - 1)

    def positions(self, config: Config, ids: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """Positions counted from the padding index on."""
        return positions_after_padding_index(config.pad_token_id, ids, starts, lengths)


FAMILIES.add("roberta", Roberta())
