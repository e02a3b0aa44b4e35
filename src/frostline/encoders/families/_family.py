"""The interface of a family; the defaults fit BERT, and each other family overrides what differs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from operator import attrgetter
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
    """One architecture: where its embeddings, layers, final norm and pooler are, and how a layer is called.

    Paths are relative to the base model (`BertModel`), the names in `projections` and `norms` to one layer.
    """

    name: str  # Hugging Face's model_type
    title: str
    examples: str  # well-known encoders of this family, for the list of supported families
    note: str = ""  # one line for users of this family
    colour: str | None = None  # colour of its encoders in figures; None for one that no other family has

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
    # The last module of each half of a layer, before its output is added to its input: where an adapter is attached.
    ends: Mapping[str, str] = {"attention": "attention.output.dropout", "output": "output.dropout"}
    attention_path: str = "attention.self"  # within a layer: where a prefix is attached
    activation_path: str = "intermediate.intermediate_act_fn"
    # Of attention weights, after attention's output projection, after the feed-forward part; families may lack some.
    dropouts: Mapping[str, str] = {
        "attention": "attention.self.dropout",
        "project": "attention.output.dropout",
        "down": "output.dropout",
    }
    heads_attribute: str = "num_attention_heads"  # of the attention module
    can_pack: bool = True  # whether layers run on unpadded tokens (see `parts`)
    takes_bfloat16: bool = True  # whether the stock code runs in mixed precision
    has_multiple_choice: bool = True  # whether transformers has a ForMultipleChoice class
    has_token_types: bool = True  # whether its embeddings take token_type_ids
    can_average: bool = True  # whether a layer with queries of zero attends to all tokens equally, and norms its output

    # Names in its configuration and its modules that differ between families.
    depth_keys: tuple[str, ...] = ("num_hidden_layers",)
    head_dropout_keys: tuple[str, ...] = ("classifier_dropout", "hidden_dropout_prob")  # the first that is set is used
    dropout_attributes: tuple[str, ...] = ()  # attributes of modules with dropout probabilities, besides `nn.Dropout`
    # Keys that do not affect the states of lower layers: encoders that differ only in these share cached states.
    upper_keys: frozenset[str] = frozenset(
        {"num_hidden_layers", "layer_types", "architectures", "_name_or_path", "dtype", "id2label", "label2id",
         "problem_type", "transformers_version", "classifier_dropout"}
    )  # fmt: skip

    # Structure ---------------------------------------------------------------------------------------------------

    def check(self, config: Config) -> str | None:
        """Return why this configuration cannot be used, in a few words, or None."""
        if getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False):
            return "it is configured as a decoder"
        return None

    def depth(self, config: Config) -> int:
        """Return the number of layers L."""
        return int(config.num_hidden_layers)

    def layers(self, model: Model) -> list[nn.Module]:
        """Return the module of each layer, lowest first; layers that share a module have the same one."""
        return list(cast(nn.ModuleList, model.get_submodule(self.layers_path)))

    def attached(self, model: Model, origin: int) -> list[nn.Module]:
        """Return modules that belong to a layer but lie outside it; origin is its number in the pretrained model."""
        return []

    def shares_layers(self, config: Config) -> bool:
        """Whether several layers use the same parameters."""
        return False

    def unrolled(self, config: Config) -> Config:
        """Return the configuration in which every layer has its own parameters."""
        return config

    def keeps_sharing(self, config: Config, numbers: Sequence[int]) -> bool:
        """Whether layers that share parameters still share them if only these are kept, in this order."""
        return False

    def reordered(self, config: Config, numbers: Sequence[int], origins: Sequence[int]) -> Config:
        """Return a copy of the configuration for the layers in a new order.

        Args:
            config: the configuration; not changed.
            numbers: the layers to keep, lowest first, by their present numbers.
            origins: the same layers by their numbers in the pretrained model.
        """
        new = copy.deepcopy(config)
        new.num_hidden_layers = len(numbers)
        return new

    def set_layers(self, model: Model, layers: Sequence[nn.Module]) -> None:
        """Replace the model's layers by these modules."""
        parent_path, _, name = self.layers_path.rpartition(".")
        setattr(model.get_submodule(parent_path), name, nn.ModuleList(layers))

    def is_stock(self, model: Model, origins: Sequence[int]) -> bool:
        """Whether the stock class gives the same outputs with these layers, by their pretrained numbers."""
        return True

    def head_reads(self, config: Config, kind: str) -> Reads:
        """Return the tokens whose states the stock head for this kind of task reads."""
        return Reads.FIRST

    # Inputs ------------------------------------------------------------------------------------------------------

    def max_length(self, config: Config) -> int | None:
        """Return the largest number of tokens of a text, or None if positions set no limit."""
        return int(config.max_position_embeddings)

    def positions(self, config: Config, ids: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """Return the position index of each token of texts laid end to end."""
        return torch.arange(ids.shape[0], device=ids.device) - starts.repeat_interleave(lengths)

    def embed(self, model: Model, ids: Tensor, types: Tensor, positions: Tensor) -> Tensor:
        """Return state 0 of texts laid end to end, (tokens, width), from three (tokens,)."""
        marks = {"token_type_ids": types[None]} if self.has_token_types else {}
        out = model.embeddings(input_ids=ids[None], position_ids=positions[None], **marks)
        return cast(Tensor, out[0])

    # Layers on padded batches --------------------------------------------------------------------------------------

    def context(self, model: Model, mask: Tensor, dtype: torch.dtype) -> Any:
        """Return the input that all layers of one padded batch share: attention masks, positions, rotary tables.

        Args:
            model: the base model.
            mask: (texts, longest), true at real tokens.
            dtype: number format of the states.
        """
        return additive_mask(mask, dtype)

    def call(self, model: Model, layer: nn.Module, states: Tensor, context: Any, *, origin: int) -> Tensor:
        """Return the layer's output for a padded batch of states, (texts, longest, width)."""
        return cast(Tensor, layer(states, context))

    # Layers on unpadded tokens -------------------------------------------------------------------------------------

    def parts(self, layer: Any) -> LayerParts:
        """Return the modules of one layer, for running it on unpadded tokens."""
        return LayerParts(
            **{name: layer.get_submodule(path) for name, path in self.projections.items()},
            **{f"{name}_norm": layer.get_submodule(path) for name, path in self.norms.items()},
            **{f"{name}_dropout": layer.get_submodule(path).p for name, path in self.dropouts.items()},
            activation=attrgetter(self.activation_path)(layer),
            heads=getattr(layer.get_submodule(self.attention_path), self.heads_attribute),
            **self._added(layer),
        )

    def position_bias(self, model: Model, length: int) -> Tensor | None:
        """Return the bias that every layer adds to attention scores, (heads, length, length), or None."""
        return None

    # Modules that methods attach to a layer ------------------------------------------------------------------------

    def attach_adapter(self, layer: nn.Module, half: str, adapter: Any) -> None:
        """Pass the output of one half of the layer, a key of `ends`, through the adapter.

        The adapter becomes a child of the layer, so the names of the stock parameters do not change. Its `after` is the
        forward hook: a bound method, which a deep copy of the model binds to the copied adapter.
        """
        layer.add_module(f"{half}_adapter", adapter)
        layer.get_submodule(self.ends[half]).register_forward_hook(adapter.after)

    def attach_prefix(self, layer: nn.Module, prefix: nn.Module) -> None:
        """Make the layer attend to the prefix's keys and values too."""
        attention: Any = layer.get_submodule(self.attention_path)
        attention.prefix = prefix
        self._attend_to_prefix(attention)

    def _attend_to_prefix(self, attention: Any) -> None:
        """Make the stock attention module attend to its prefix, through transformers' attention interface."""
        attention.config = with_prefix_attention(attention.config)

    def _added(self, layer: nn.Module) -> dict[str, Any]:
        """Return the modules that a method has attached to the layer, for running it on unpadded tokens.

        An adapter after a projection runs through its hook; one after a dropout, which the kernels do not call, is in
        the result.
        """
        hookless = [half for half, path in self.ends.items() if path not in self.projections.values()]
        return {
            "prefix": getattr(layer.get_submodule(self.attention_path), "prefix", None),
            **{f"{half}_adapter": getattr(layer, f"{half}_adapter", None) for half in hookless},
        }


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Return (texts, 1, 1, longest): 0 at real tokens, the lowest number at padding; None without padding."""
    if mask.is_meta or bool(mask.all()):  # tensors on the meta device are only counted, without padding
        return None
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return bias.masked_fill_(~mask, torch.finfo(dtype).min)[:, None, None, :]


def positions_after_padding_index(padding_index: int, ids: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
    """Return positions as fairseq counts them: from padding_index + 1, skipping tokens equal to the padding token.

    A text may itself contain the padding token (typed as "<pad>"); the stock models give it the padding position.
    """
    is_real = ids != padding_index
    counts = is_real.cumsum(0)
    before = torch.cat([counts.new_zeros(1), counts])[starts]
    return (counts - before.repeat_interleave(lengths)) * is_real + padding_index
