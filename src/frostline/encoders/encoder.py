"""A pretrained model as embeddings plus layers 1..L.

States are unpadded: one (tokens, width) matrix for the texts of a batch laid end to end, and a `Layout` with the
positions of each text. State 0 is the output of the embeddings and state i the output of layer i.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Family, Model
from frostline.encoders.parameter_groups import ParameterGroups, find, parts_of
from frostline.encoders.tokens import Tokens, tokenize
from frostline.errors import EncoderError, OptionError
from frostline.kernels import packed_layer as packed
from frostline.kernels.batch_layout import Layout, Reads
from frostline.kernels.dropout import Noise
from frostline.records import EncoderRef, Origin

# Rotary and relative positions reach thousands of tokens; texts are that long only on request.
LONGEST_BY_DEFAULT = 512


class Encoder:
    """A pretrained model and its tokenizer, as embeddings plus layers 1..L.

    Example:
        >>> encoder = frostline.load_encoder()
        >>> encoder.depth, encoder.width
        (6, 384)
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Any = None,
        *,
        name: str = "in-memory model",
        revision: str = "",
        folder: Path | None = None,
        origin: Origin | None = None,
        has_pretrained_pooler: bool = True,
        order: Sequence[int] | None = None,
    ) -> None:
        """Wrap a Hugging Face base model; `load_encoder` is the usual way in.

        Args:
            model: a base model (`BertModel`, ...), in any mode; it is put in eval mode.
            tokenizer: its tokenizer, needed only where texts come in.
            name: its name in results.
            revision: identifier of its weights.
            folder: the folder of its files, if it came from files.
            origin: its origin; by default "folder" if it has a folder, else "memory".
            has_pretrained_pooler: whether the checkpoint contains the pooler's weights.
            order: each layer's number in the pretrained model, if surgery has moved layers.
        """
        self.family: Family = FAMILIES[model.config.model_type]
        if reason := self.family.check(model.config):
            raise EncoderError(f"{name}: {reason}")
        if self.family.depth(model.config) < 1:
            raise EncoderError(f"{name}: has no layers")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name
        self.revision = revision
        self.folder = folder
        self.origin: Origin = origin or ("memory" if folder is None else "folder")
        self.is_changed = False  # whether surgery has been done since it was loaded
        self.has_pretrained_pooler = has_pretrained_pooler and bool(parts_of(self.family, model).pooler)
        self.order = tuple(order or range(1, self.depth + 1))

    # Properties ----------------------------------------------------------------------------------------------------

    @property
    def config(self) -> Config:
        """The Hugging Face configuration."""
        return self.model.config

    @property
    def ref(self) -> EncoderRef:
        """The reference to it in trials."""
        return EncoderRef(name=self.name, revision=self.revision)

    @property
    def depth(self) -> int:
        """The number of layers, L."""
        return self.family.depth(self.model.config)

    @property
    def width(self) -> int:
        """The width of a state."""
        return int(self.model.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return cast(torch.device, next(self.model.parameters()).device)

    @property
    def shares_layers(self) -> bool:
        """Whether several layers use the same parameters (ALBERT, until it is unrolled)."""
        return self.family.shares_layers(self.config)

    @property
    def is_stock(self) -> bool:
        """Whether Hugging Face's own class gives the same outputs, so that it can be saved as a stock model."""
        return self.family.is_stock(self.model, self.order)

    @property
    def max_length(self) -> int:
        """The largest number of tokens of a text."""
        limits = [self.family.max_length(self.config), getattr(self.tokenizer, "model_max_length", None)]
        return min([int(limit) for limit in limits if isinstance(limit, int | float)] or [LONGEST_BY_DEFAULT])

    @property
    def default_length(self) -> int:
        """The number of tokens at which texts are cut by default."""
        return min(self.max_length, LONGEST_BY_DEFAULT)

    @property
    def is_tuned(self) -> bool:
        """Whether the checkpoint is a classifier, which was tuned on some task."""
        return any("ForSequenceClassification" in name for name in self.config.architectures or ())

    def parts(self) -> ParameterGroups:
        """Return the parameters of the embeddings, of each layer, of the final norm and of the pooler."""
        return parts_of(self.family, self.model, self.order)

    def spare_tensors(self, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
        """Return the checkpoint's weights outside the base model that have these names and shapes, no classifiers."""
        if self.folder is None:
            return {}
        from safetensors import safe_open

        tensors: dict[str, Tensor] = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                for name in file.keys() & shapes.keys():
                    has_shape = torch.Size(file.get_slice(name).get_shape()) == shapes[name]
                    if has_shape and not name.startswith("classifier"):
                        tensors[name] = file.get_tensor(name)
        return tensors

    def copy(self) -> Encoder:
        """Return an independent encoder with the same weights."""
        new = copy.copy(self)
        new.model = copy.deepcopy(self.model)
        return new

    # Texts in, states out --------------------------------------------------------------------------------------------

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, max_length: int | None = None
    ) -> Tokens:
        """Return the texts, or pairs of texts, as token ids, cut at max_length (by default 512 or less)."""
        if self.tokenizer is None:
            raise EncoderError(f"{self.name}: has no tokenizer; give one with the model")
        if max_length is not None and max_length > self.max_length:
            raise OptionError(f"max length {max_length}: {self.name} takes at most {self.max_length} tokens")
        limit = self.default_length if max_length is None else max_length
        tokens = tokenize(self.tokenizer, texts, pairs, max_length=limit)
        if int(tokens.ids.max()) >= self.config.vocab_size:
            raise EncoderError(
                f"{self.name}: the tokenizer returns token {int(tokens.ids.max())}, but the model's vocabulary has "
                f"{self.config.vocab_size} tokens; they do not belong together"
            )
        return tokens

    def encode(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        layers: Sequence[int] | None = None,
        max_length: int | None = None,
    ) -> dict[int, list[Tensor]]:
        """Return the token states of texts at chosen layers: for each layer a list with one (tokens, width) per text.

        Args:
            texts: a batch of texts.
            pairs: their second texts, if they are pairs.
            layers: the layers of the states, 0..L; all of them by default.
            max_length: number of tokens at which texts are cut.
        """
        chosen = range(self.depth + 1) if layers is None else layers
        for layer in chosen:
            if not 0 <= layer <= self.depth:
                raise OptionError(f"layer {layer}: {self.name} has states 0..{self.depth}")
        tokens = self.tokenize(texts, pairs, max_length=max_length)
        lengths = tokens.lengths.tolist()
        with torch.inference_mode():
            states = enumerate(self.states(tokens, self.layout(tokens)))
            return {layer: list(torch.split(state, lengths)) for layer, state in states if layer in chosen}

    def layout(self, tokens: Tokens) -> Layout:
        """Return the positions of each text's tokens."""
        return Layout(tokens.lengths, device=self.device)

    def embed(self, tokens: Tokens, layout: Layout) -> Tensor:
        """Return state 0 of the texts: (tokens, width)."""
        ids = torch.as_tensor(tokens.ids, device=self.device)
        types = torch.as_tensor(tokens.types, device=self.device)
        if getattr(self.config, "type_vocab_size", 0) < 2:
            types = torch.zeros_like(types)  # the tokenizer of another family may mark second texts
        positions = self.family.positions(self.config, ids, layout.starts, layout.lengths)
        return self.family.embed(self.model, ids, types, positions)

    def run(
        self,
        states: Tensor,
        layout: Layout,
        first: int,
        last: int,
        *,
        padded: bool = False,
        noise: Noise | None = None,
        reads: Reads = Reads.ALL,
    ) -> Tensor:
        """Return the output of layer `last`, given the input of layer `first`: (tokens, width) to the same shape.

        With last = first - 1 nothing runs. The final norm, if the family has one, is not applied (see `finish`). The
        arguments are those of `run_each`.
        """
        for states in self.run_each(states, layout, first, last, padded=padded, noise=noise, reads=reads):  # noqa: B007, B020
            pass
        return layout.read(states, reads)

    def run_each(
        self,
        states: Tensor,
        layout: Layout,
        first: int,
        last: int,
        *,
        padded: bool = False,
        noise: Noise | None = None,
        reads: Reads = Reads.ALL,
    ) -> Iterator[Tensor]:
        """Yield the output of each of the layers first..last in turn.

        Args:
            states: (tokens, width), the output of layer first - 1.
            layout: positions of each text's tokens.
            first: lowest layer to run, from 1.
            last: highest layer to run.
            padded: whether to run a padded batch through the stock layer even if the family can run unpadded tokens.
            noise: random numbers of a training step, for dropout.
            reads: the tokens to read from the last layer's output; if it is one token of each text, and the family can
                compute it alone, the last output is (texts, width).
        """
        if not 1 <= first <= last + 1 <= self.depth + 1:
            raise OptionError(f"layers {first}..{last}: {self.name} has layers 1..{self.depth}")
        chosen = list(zip(self.order, self.family.layers(self.model), strict=True))[first - 1 : last]
        if not chosen:
            return
        if self.family.can_pack and not padded:
            bias = cache(lambda length: self.family.position_bias(self.model, length))
            for number, (_, layer) in enumerate(chosen, start=first):
                states = packed.run_layer(
                    self.family.parts(layer),
                    states,
                    layout,
                    bias=bias,
                    training=layer.training,
                    noise=noise,
                    reads=reads if number == last else Reads.ALL,
                )
                yield states
            return
        context = self.family.context(self.model, layout.padded.mask, states.dtype)
        batch = layout.pad(states)
        for origin, layer in chosen:
            batch = self.family.call(self.model, layer, batch, context, origin=origin)
            yield layout.unpad(batch)

    def finish(self, states: Tensor) -> Tensor:
        """Return state L as Hugging Face does: through the final norm, if the family has one."""
        norm = find(self.model, self.family.final_norm_path)
        return states if norm is None else cast(Tensor, norm(states))

    def states(self, tokens: Tokens, layout: Layout, *, padded: bool = False) -> Iterator[Tensor]:
        """Yield states 0..L in turn, each (tokens, width): Hugging Face's `hidden_states`, unpadded."""
        state = self.embed(tokens, layout)
        yield state
        for number, state in enumerate(self.run_each(state, layout, 1, self.depth, padded=padded), start=1):  # noqa: B020
            yield self.finish(state) if number == self.depth else state


def unroll(encoder: Encoder) -> Encoder:
    """Return a copy of the encoder with the same outputs whose layers share no parameters."""
    new = encoder.copy()
    if encoder.shares_layers:
        layers: list[nn.Module] = [copy.deepcopy(layer) for layer in encoder.family.layers(new.model)]
        set_config(new.model, encoder.family.unrolled(new.config))
        encoder.family.set_layers(new.model, layers)
    return new


def set_config(model: Model, config: Config) -> None:
    """Set the configuration of the model and of all its submodules that have one, so that they agree."""
    for module in model.modules():
        if hasattr(module, "config"):
            module.config = config
