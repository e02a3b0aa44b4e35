"""The papers' encoders and tasks as numbers: configurations without weights, sizes of splits without rows.

Rows are those of the official files, counted where the files were at hand; each size says how it is known. The rows of
the development sets of GLUE and SuperGLUE are also those of tables 2 and 3 of Lodha et al. 2023. Tokens are the mean
over the first 3,000 training texts (of MNLI, texts of the matched development set), special tokens included, with the
vocabulary of BERT-base uncased; where the files were not at hand they are estimates. Numbers of trials depend on rows
alone, GPU-hours on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of a task.

    Args:
        train: training rows, by class where classes are counted, otherwise in total.
        dev: rows of the official development set.
        tokens: mean number of tokens of a text (of a question with one choice for multiple choice).
        known: how the rows are known: 'counted' in the official files, the total as 'published' with the data set and
            its classes from memory, or all training rows from 'memory'.
        is_measured: whether tokens were counted, or estimated.
    """

    train: tuple[int, ...]
    dev: int
    tokens: int
    known: Literal["counted", "published", "memory"] = "counted"
    is_measured: bool = True


SIZES: Mapping[str, Size] = {
    "glue/cola": Size(train=(2528, 6023), dev=1043, tokens=12),
    "glue/sst2": Size(train=(29780, 37569), dev=872, tokens=13),
    "glue/mrpc": Size(train=(1194, 2474), dev=408, tokens=53),
    "glue/stsb": Size(train=(5749,), dev=1500, tokens=28),
    "glue/qqp": Size(train=(229468, 134378), dev=40430, tokens=30, known="published", is_measured=False),
    "glue/mnli": Size(train=(130899, 130900, 130903), dev=9815, tokens=39, known="published"),
    "glue/mnli_mismatched": Size(train=(130899, 130900, 130903), dev=9832, tokens=39, known="published"),
    "glue/mnli_both": Size(train=(130899, 130900, 130903), dev=9815, tokens=39, known="published"),
    "glue/qnli": Size(train=(52366, 52377), dev=5463, tokens=50, known="published", is_measured=False),
    "glue/rte": Size(train=(1249, 1241), dev=277, tokens=70, known="memory", is_measured=False),
    "glue/wnli": Size(train=(323, 312), dev=71, tokens=37),
    "super_glue/boolq": Size(train=(3553, 5874), dev=3270, tokens=145, known="published", is_measured=False),
    "super_glue/cb": Size(train=(115, 119, 16), dev=56, tokens=83),
    "super_glue/copa": Size(train=(195, 205), dev=100, tokens=23),
    "super_glue/multirc": Size(train=(15218, 12025), dev=4848, tokens=374),
    "super_glue/wic": Size(train=(2714, 2714), dev=638, tokens=28, known="memory", is_measured=False),
    "super_glue/wsc": Size(train=(295, 259), dev=104, tokens=34),
    "yelp_polarity": Size(train=(280000, 280000), dev=38000, tokens=170, known="published", is_measured=False),
    "hellaswag": Size(train=(9986, 10031, 9867, 10021), dev=10042, tokens=90, known="published", is_measured=False),
    "cosmosqa": Size(train=(6315, 6315, 6316, 6316), dev=2985, tokens=110, known="published", is_measured=False),
}

_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}

# By the name on the hub: the model type and where its configuration differs from the library's default of that type.
ENCODERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "google-bert/bert-base-uncased": ("bert", {}),
    "google-bert/bert-base-cased": ("bert", {"vocab_size": 28996}),
    "google-bert/bert-large-uncased": ("bert", _LARGE),
    "FacebookAI/roberta-base": ("roberta", _ROBERTA),
    "FacebookAI/roberta-large": ("roberta", {**_ROBERTA, **_LARGE}),
    "microsoft/deberta-base": ("deberta", {"vocab_size": 50265, "type_vocab_size": 0, "relative_attention": True,
                                           "position_biased_input": False, "pos_att_type": ["c2p", "p2c"]}),
    "albert/albert-large-v2": ("albert", {"embedding_size": 128, **_LARGE}),
    "google/electra-base-discriminator": ("electra", {"embedding_size": 768, "hidden_size": 768,
                                                      "num_attention_heads": 12, "intermediate_size": 3072}),
}  # fmt: skip

# The layer with the lowest variability (Xie et al. 2022, section 4.2 and appendix C.2).
BEST_LAYERS: Mapping[str, Mapping[str, int]] = {
    "FacebookAI/roberta-large": {"glue/cola": 18, "glue/mnli": 14, "glue/mrpc": 14, "glue/qnli": 13, "glue/qqp": 14,
                                 "glue/sst2": 16},
    "microsoft/deberta-base": {"glue/cola": 8, "glue/mnli": 10, "glue/mrpc": 9, "glue/qnli": 7, "glue/qqp": 7,
                               "glue/sst2": 12},
}  # fmt: skip
