"""What a family has to say; the defaults fit BERT, and each other family overrides what differs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from frostline.encoders.families._prefix_attention import with_prefix_attention
from frostline.kernels.batch_layout import Reads
from frostline.kernels.layer_parts import LayerParts

# Hugging Face models and configurations carry no useful types.
Model = Any
Config = Any


class Family:
    """One architecture: where its embeddings, layers, final norm and pooler live, and how a layer is called.

    Paths are relative to the base model (`BertModel`), the names in `projections` and `norms` to one layer.
    """

    name: str  # Hugging Face's model_type
    title: str
    examples: str  # well-known encoders of this family, for the list of what is supported
    note: str = ""  # what a user of this family should know, in one line
    colour: str | None = None  # of its encoders in figures; None for any that no other family has

    layers_path: str = "encoder.layer"
    embedding_paths: tuple[str, ...] = ("embeddings",)  # all that feeds the layers, shared parameters included
    final_norm_path: str | None = None  # applied to the last state; belongs to the head
    pooler_path: str | None = "pooler"
    projections: Mapping[str, str] = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "project": "attention.output.dense",
        "up": "intermediate.dense",
        "down": "output.dense",
    }
    norms: Mapping[str, str] = {"attention": "attention.output.LayerNorm", "output": "output.LayerNorm"}
    # What each half of a layer runs last, before its output is added to its input: where an adapter is hung.
    ends: Mapping[str, str] = {"attention": "attention.output.dropout", "output": "output.dropout"}
    attention_path: str = "attention.self"  # within a layer: where a prefix is hung
    can_pack: bool = True  # whether layers run on unpadded tokens (see `parts`)
    takes_bfloat16: bool = True  # whether the stock code runs in mixed precision
    has_multiple_choice: bool = True  # whether transformers has a ForMultipleChoice class
    has_token_types: bool = True  # whether its tokenizers tell the two texts of a pair apart by token_type_ids

    # Where its configuration and its modules say something that others say elsewhere.
    depth_keys: tuple[str, ...] = ("num_hidden_layers",)
    head_dropout_keys: tuple[str, ...] = ("classifier_dropout", "hidden_dropout_prob")  # the first that is set counts
    dropout_attributes: tuple[str, ...] = ()  # of modules: probabilities that are kept outside `nn.Dropout`
    # What the states of lower layers do not depend on: encoders that differ only in these share cached states.
    upper_keys: frozenset[str] = frozenset(
        {"num_hidden_layers", "layer_types", "architectures", "_name_or_path", "dtype", "id2label", "label2id",
         "problem_type", "transformers_version", "classifier_dropout"}
    )  # fmt: skip

    # Structure ---------------------------------------------------------------------------------------------------

    def check(self, config: Config) -> str | None:
        """Why this configuration cannot be used, in a few words, or None."""
        if getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False):
            return "it is configured as a decoder"
        return None

    def depth(self, config: Config) -> int:
        """The number of layers L."""
        return int(config.num_hidden_layers)

    def layers(self, model: Model) -> list[nn.Module]:
        """The module of each layer, lowest first; the same module several times where layers share it."""
        return list(cast(nn.ModuleList, model.get_submodule(self.layers_path)))

    def attached(self, model: Model, origin: int) -> list[nn.Module]:
        """Modules outside the layer's own one that belong to it; origin is its number in the pretrained model."""
        return []

    def shares_layers(self, config: Config) -> bool:
        """Whether several layers use the same parameters."""
        return False

    def unrolled(self, config: Config) -> Config:
        """The configuration in which every layer has its own parameters."""
        return config

    def keeps_sharing(self, config: Config, numbers: Sequence[int]) -> bool:
        """Whether layers that share parameters can go on sharing them when only these are left, in this order."""
        return False

    def reordered(self, config: Config, numbers: Sequence[int], origins: Sequence[int]) -> Config:
        """A copy of the configuration for the layers in a new order.

        Args:
            config: left as it is.
            numbers: the layers to keep, lowest first, by their present numbers.
            origins: the same layers by their numbers in the pretrained model.
        """
        new = copy.deepcopy(config)
        new.num_hidden_layers = len(numbers)
        return new

    def set_layers(self, model: Model, layers: Sequence[nn.Module]) -> None:
        """Put these modules in the place of the model's layers."""
        parent_path, _, name = self.layers_path.rpartition(".")
        setattr(model.get_submodule(parent_path), name, nn.ModuleList(layers))

    def is_stock(self, model: Model, origins: Sequence[int]) -> bool:
        """Whether the stock class computes the same with these layers (by their numbers in the pretrained model)."""
        return True

    def head_reads(self, config: Config, kind: str) -> Reads:
        """Which tokens' states the stock head for this kind of task looks at."""
        return Reads.FIRST

    # Inputs ------------------------------------------------------------------------------------------------------

    def max_length(self, config: Config) -> int | None:
        """The most tokens a text may have, or None where positions set no limit."""
        return int(config.max_position_embeddings)

    def positions(self, config: Config, ids: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """The position index of each token of texts laid end to end."""
        return torch.arange(ids.shape[0], device=ids.device) - starts.repeat_interleave(lengths)

    def embed(self, model: Model, ids: Tensor, types: Tensor, positions: Tensor) -> Tensor:
        """State 0 of texts laid end to end: (tokens,) three times in, (tokens, width) out."""
        out = model.embeddings(input_ids=ids[None], token_type_ids=types[None], position_ids=positions[None])
        return cast(Tensor, out[0])

    # Layers on padded batches --------------------------------------------------------------------------------------

    def context(self, model: Model, mask: Tensor, dtype: torch.dtype) -> Any:
        """What all layers of one padded batch share: attention masks, relative positions, rotary tables.

        Args:
            model: the base model.
            mask: (texts, longest), true at real tokens.
            dtype: of the states.
        """
        return additive_mask(mask, dtype)

    def call(self, model: Model, layer: nn.Module, states: Tensor, context: Any, *, origin: int) -> Tensor:
        """The layer's output for a padded batch of states, (texts, longest, width)."""
        return cast(Tensor, layer(states, context))

    # Layers on unpadded tokens -------------------------------------------------------------------------------------

    def parts(self, layer: Any) -> LayerParts:
        """The pieces of one layer, for running it on unpadded tokens."""
        attention = layer.attention.self
        return LayerParts(
            **self._linears(layer),
            attention_norm=layer.attention.output.LayerNorm,
            activation=layer.intermediate.intermediate_act_fn,
            output_norm=layer.output.LayerNorm,
            heads=attention.num_attention_heads,
            attention_dropout=attention.dropout.p,
            project_dropout=layer.attention.output.dropout.p,
            down_dropout=layer.output.dropout.p,
            **self._added(layer),
        )

    def position_bias(self, model: Model, length: int) -> Tensor | None:
        """(heads, length, length), added to attention scores at every layer, or None."""
        return None

    def _linears(self, layer: nn.Module) -> dict[str, nn.Module]:
        return {name: layer.get_submodule(path) for name, path in self.projections.items()}

    # What methods hang into a layer --------------------------------------------------------------------------------

    def hang_adapter(self, layer: nn.Module, place: str, adapter: Any) -> None:
        """Let the layer pass what one half of it adds through the adapter; place is a key of `ends`.

        The adapter becomes a child of the layer, so that the names of the stock parameters stay what they are. Its
        `after` is the forward hook: a bound method, which a deep copy of the model binds to the copied adapter.
        """
        layer.add_module(f"{place}_adapter", adapter)
        layer.get_submodule(self.ends[place]).register_forward_hook(adapter.after)

    def hang_prefix(self, layer: nn.Module, prefix: nn.Module) -> None:
        """Let the layer attend to the prefix's keys and values too."""
        attention: Any = layer.get_submodule(self.attention_path)
        attention.prefix = prefix
        self._attend_to_prefix(attention)

    def _attend_to_prefix(self, attention: Any) -> None:
        """Make the stock attention module see its prefix: by default through transformers' table of attentions."""
        attention.config = with_prefix_attention(attention.config)

    def _added(self, layer: nn.Module) -> dict[str, Any]:
        """What a method has hung into the layer, for running it on unpadded tokens.

        An adapter behind a projection runs with it, through its hook; behind a dropout, which is not called there, it
        has to be named.
        """
        called = self.projections.values()
        return {
            "prefix": getattr(layer.get_submodule(self.attention_path), "prefix", None),
            **{
                f"{place}_adapter": getattr(layer, f"{place}_adapter", None)
                for place, path in self.ends.items()
                if path not in called
            },
        }


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """(texts, 1, 1, longest): 0 at real tokens, the lowest number at padding; None when there is no padding."""
    if mask.is_meta or bool(mask.all()):  # what has no content is only counted, and then without padding
        return None
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return bias.masked_fill_(~mask, torch.finfo(dtype).min)[:, None, None, :]


def positions_after_padding_index(padding_index: int, ids: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
    """Positions as fairseq counts them: from padding_index + 1, skipping tokens equal to the padding token.

    A text may itself contain the padding token ("<pad>" typed out); the stock models give it the padding position.
    """
    is_real = ids != padding_index
    counts = is_real.cumsum(0)
    before = torch.cat([counts.new_zeros(1), counts])[starts]
    return (counts - before.repeat_interleave(lengths)) * is_real + padding_index
