"""An encoder family: a BERT under another name, which transformers is told about here, too."""

from __future__ import annotations

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
)

from frostline.encoders.families import FAMILIES, Family


class FrostBertConfig(BertConfig):
    """BERT's configuration."""

    model_type = "frostbert"


class FrostBertModel(BertModel):
    """BERT's layers."""

    config_class = FrostBertConfig


class FrostBertForSequenceClassification(BertForSequenceClassification):
    """BERT's classification head."""

    config_class = FrostBertConfig


AutoConfig.register("frostbert", FrostBertConfig)
AutoModel.register(FrostBertConfig, FrostBertModel)
AutoModelForSequenceClassification.register(FrostBertConfig, FrostBertForSequenceClassification)


class FrostBert(Family):
    """Where the parts of the model live: as in BERT, which the defaults describe."""

    name = "frostbert"
    title = "FrostBERT"
    examples = "none but the test's own"
    colour = "#117733"
    has_multiple_choice = False


FAMILIES.add("frostbert", FrostBert())
