"""XLM-RoBERTa: RoBERTa in a hundred languages; the same layers under another name."""

from __future__ import annotations

from frostline.encoders.families import FAMILIES
from frostline.encoders.families.roberta import Roberta


class XlmRoberta(Roberta):
    """RoBERTa's layers with a multilingual vocabulary."""

    name = "xlm-roberta"
    title = "XLM-RoBERTa"
    examples = "xlm-roberta-base, xlm-roberta-large, multilingual-e5-base"
    colour = "#8c2d04"


FAMILIES.add("xlm-roberta", XlmRoberta())
