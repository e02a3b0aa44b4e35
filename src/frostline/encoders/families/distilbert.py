"""DistilBERT: BERT's layers under other names, without token types and pooler."""

from __future__ import annotations

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Family


class DistilBert(Family):
    """Six of BERT's layers under other names."""

    name = "distilbert"
    title = "DistilBERT"
    examples = "distilbert-base-uncased, distilbert-base-multilingual-cased"
    colour = "#56b4e9"
    layers_path = "transformer.layer"
    pooler_path = None
    projections = {
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "project": "attention.out_lin",
        "up": "ffn.lin1",
        "down": "ffn.lin2",
    }
    norms = {"attention": "sa_layer_norm", "output": "output_layer_norm"}
    ends = {"attention": "attention.out_lin", "output": "ffn.dropout"}
    attention_path = "attention"
    activation_path = "ffn.activation"
    dropouts = {"attention": "attention.dropout", "down": "ffn.dropout"}
    heads_attribute = "n_heads"
    has_token_types = False
    depth_keys = ("n_layers", "num_hidden_layers")
    head_dropout_keys = ("seq_classif_dropout",)
    upper_keys = Family.upper_keys | {"n_layers"}


FAMILIES.add("distilbert", DistilBert())
