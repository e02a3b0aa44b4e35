"""BERT: the defaults of a family."""

from __future__ import annotations

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Family


class Bert(Family):
    """Post-norm layers, absolute positions, a tanh pooler on the first token."""

    name = "bert"
    title = "BERT"
    examples = "bert-base-uncased, bert-large-cased, MiniLM, all-MiniLM-L6-v2, bge-small-en-v1.5"
    colour = "#0072b2"


FAMILIES.add("bert", Bert())
