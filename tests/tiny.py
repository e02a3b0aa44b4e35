"""Tiny random models of every family and tokens for them: small enough for many tests, shaped like the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens

DEPTH = 4
LENGTHS = (5, 17, 3, 9, 30, 2, 17)
VOCABULARY = 120

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
_DISENTANGLED = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
_SPECIAL_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}

# Each family in the shape of its public models, and the variants that take other branches of the stock code.
CONFIGS: dict[str, Any] = {
    "bert": transformers.BertConfig(**_SIZES),
    "roberta": transformers.RobertaConfig(**_SIZES, type_vocab_size=1),
    "xlm-roberta": transformers.XLMRobertaConfig(**_SIZES, type_vocab_size=1),
    "electra": transformers.ElectraConfig(**_SIZES, embedding_size=16),
    "albert": transformers.AlbertConfig(**_SIZES, embedding_size=16),
    "distilbert": transformers.DistilBertConfig(
        vocab_size=VOCABULARY, dim=32, n_layers=DEPTH, n_heads=4, hidden_dim=48, max_position_embeddings=64
    ),
    "mpnet": transformers.MPNetConfig(**_SIZES),
    "deberta": transformers.DebertaConfig(**_SIZES, **_DISENTANGLED),
    "deberta-v2": transformers.DebertaV2Config(
        **_SIZES, **_DISENTANGLED, position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True
    ),
    "modernbert": transformers.ModernBertConfig(
        **_SIZES, **_SPECIAL_IDS, local_attention=8, global_attn_every_n_layers=3
    ),
}
VARIANTS: dict[str, Any] = {
    "electra wide embeddings": transformers.ElectraConfig(**_SIZES, embedding_size=32),
    "albert two groups": transformers.AlbertConfig(**_SIZES, embedding_size=16, num_hidden_groups=2),
    "deberta absolute positions": transformers.DebertaConfig(**_SIZES, position_biased_input=True),
    "deberta-v2 convolution": transformers.DebertaV2Config(
        **_SIZES,
        **_DISENTANGLED,
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        conv_kernel_size=3,
        conv_act="gelu",
    ),
    "modernbert mean pooling": transformers.ModernBertConfig(
        **_SIZES, **_SPECIAL_IDS, local_attention=8, classifier_pooling="mean"
    ),
}
ALL_CONFIGS = {**CONFIGS, **VARIANTS}


def tiny_model(name: str, *, seed: int = 0) -> Any:
    """A random base model whose weights are large enough for every part to matter."""
    torch.manual_seed(seed)
    model = transformers.AutoModel.from_config(type(ALL_CONFIGS[name]).from_dict(ALL_CONFIGS[name].to_dict()))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
        else:
            parameter.data.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def tiny_encoder(name: str, *, seed: int = 0) -> Encoder:
    """An encoder around `tiny_model`."""
    return Encoder(tiny_model(name, seed=seed), name=f"tiny {name}")


def random_tokens(lengths: tuple[int, ...] = LENGTHS, *, seed: int = 0) -> Tokens:
    """Random ids, none of them a special token."""
    random = np.random.default_rng(seed)
    count = sum(lengths)
    return Tokens(
        ids=random.integers(5, VOCABULARY, count),
        types=np.zeros(count, dtype=np.int64),
        lengths=np.array(lengths),
        truncated=0,
    )


def padded_inputs(encoder: Encoder, tokens: Tokens) -> dict[str, torch.Tensor]:
    """The same tokens as Hugging Face wants them: padded on the right, with a mask."""
    longest = int(tokens.lengths.max())
    ids = torch.full((len(tokens), longest), encoder.config.pad_token_id or 0)
    types = torch.zeros_like(ids)
    mask = torch.zeros_like(ids)
    for row, (start, length) in enumerate(zip(tokens.starts, tokens.lengths, strict=True)):
        ids[row, :length] = torch.as_tensor(tokens.ids[start : start + length])
        types[row, :length] = torch.as_tensor(tokens.types[start : start + length])
        mask[row, :length] = 1
    inputs = {"input_ids": ids, "attention_mask": mask}
    if getattr(encoder.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = types
    return inputs


def save_tiny(folder: Path, name: str = "bert", *, seed: int = 0) -> Path:
    """A folder with a tiny model and a word tokenizer, as `save_pretrained` leaves it."""
    tiny_model(name, seed=seed).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def tiny_tokenizer() -> Any:
    """A tokenizer of single characters with BERT's special tokens."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

    characters = [chr(code) for code in range(ord(" ") + 1, ord("~") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *characters]
    core = Tokenizer(models.WordLevel({token: place for place, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), behavior="isolated")]
    )
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
