"""Heads: the one of the family's stock classes, and a mean-pooled linear one.

The family's head is the stock code: the stock class (`BertForSequenceClassification`, ...) is built on the meta device
and its base model is replaced by a module that returns given states, through the base model's own pooler and final
norm. Its forward pass is then the stock code from the states on, and its parameter names are the stock names, so saving
a model means joining the two halves again.
"""

from __future__ import annotations

import copy
from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor, nn

from frostline.encoders.encoder import Encoder
from frostline.encoders.families import FAMILIES
from frostline.encoders.families._family import Config, Family, Model
from frostline.encoders.parameter_groups import find
from frostline.errors import EncoderError
from frostline.kernels.batch_layout import Layout, Reads

HeadKind = Literal["classification", "regression", "multiple choice"]


class Head(Protocol):
    """A module that turns the states of a layer into logits."""

    kind: HeadKind

    @property
    def reads(self) -> Reads:
        """The tokens whose states it reads."""

    def __call__(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits from the states of texts, (texts, tokens, ...)."""


class GivenStates(nn.Module):
    """The replacement of a base model: returns the states it is given, through final norm and pooler."""

    def __init__(self, family: Family, model: Model) -> None:
        super().__init__()
        self._pooler = family.pooler_path
        self._norm = family.final_norm_path
        for path in (self._pooler, self._norm):
            if path is not None:
                setattr(self, path, find(model, path))
        self._activation = getattr(model, "pooler_activation", None)  # ALBERT's pooler is a bare linear layer

    def forward(self, *args: object, inputs_embeds: Tensor, **others: object) -> Any:
        """Return Hugging Face's output record for the states, (texts, tokens, width)."""
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        norm, pooler = find(self, self._norm), find(self, self._pooler)
        states = inputs_embeds if norm is None else norm(inputs_embeds)
        pooled = None
        if pooler is not None:
            pooled = pooler(states) if self._activation is None else self._activation(pooler(states[:, 0]))
        return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=pooled)


class FamilyHead(nn.Module):
    """The head of the family's ForSequenceClassification or ForMultipleChoice class, reading given states."""

    def __init__(self, stock: Model, kind: HeadKind) -> None:
        super().__init__()
        self.stock = stock
        self.kind = kind

    @property
    def reads(self) -> Reads:
        """The tokens whose states the head reads."""
        return FAMILIES[self.stock.config.model_type].head_reads(self.stock.config, self.kind)

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits from the states of the layer at which the head reads, before any final norm.

        Args:
            states: (texts, tokens, width); for multiple choice (questions, choices, tokens, width).
            mask: true at real tokens, one axis fewer than states; None if all are real.
        """
        if mask is None and not self.reads.is_single:
            mask = states.new_ones(states.shape[:-1])
        weights = None if mask is None else mask.to(states.dtype)
        return cast(Tensor, self.stock(input_ids=None, inputs_embeds=states, attention_mask=weights).logits)


class MeanHead(nn.Module):
    """One linear layer on the mean of all real tokens, as in Tamkin et al. 2020; after any final norm."""

    def __init__(
        self,
        width: int,
        *,
        outputs: int,
        dropout: float,
        final_norm: nn.Module | None = None,
        kind: HeadKind = "classification",
    ) -> None:
        super().__init__()
        self.kind = kind
        self.final_norm = final_norm
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, outputs)
        self.reads = Reads.ALL

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits, (..., outputs), from states, (..., tokens, width); a single output per choice has no axis."""
        states = states if self.final_norm is None else self.final_norm(states)
        weights = states.new_ones(states.shape[:-1]) if mask is None else mask.to(states.dtype)
        pooled = (states * weights[..., None]).sum(-2) / weights.sum(-1, keepdim=True)
        logits = self.classifier(self.dropout(pooled))
        return cast(Tensor, logits.squeeze(-1) if states.dim() == 4 else logits)


def logits_of(head: Head, states: Tensor, layout: Layout) -> Tensor:
    """Return the head's (texts, outputs), or one output per text for multiple choice, from states (tokens, ...).

    Args:
        head: one head, or a stack of several with a further axis in states and outputs.
        states: unpadded states of the layer at which it reads, at all tokens or at those that it reads.
        layout: positions of each text's tokens.
    """
    if head.reads.is_single:
        batch, mask = layout.read(states, head.reads)[:, None], None
    else:
        batch, mask = layout.pad(states), layout.padded.mask
    if head.kind == "multiple choice":
        # One choice per question: the logit of a choice does not depend on the other choices.
        batch, mask = batch[:, None], None if mask is None else mask[:, None]
    return head(batch, mask)


def family_head(
    config: Config, *, labels: int, kind: HeadKind = "classification", has_weights: bool = True
) -> FamilyHead:
    """Return a freshly initialised head of the family's stock class.

    Args:
        config: the encoder's configuration.
        labels: number of classes; 1 for regression. Multiple choice always has one logit per choice.
        kind: kind of task.
        has_weights: whether to initialise weights; False leaves shapes only, to be counted.
    """
    import transformers

    family = FAMILIES[config.model_type]
    if kind == "multiple choice" and not family.has_multiple_choice:
        raise EncoderError(f"{family.title} has no multiple-choice class in transformers; use another encoder")
    new = type(config).from_dict(config.to_dict())
    new.num_labels = labels
    if kind == "regression":
        new.problem_type = "regression"
    auto = f"AutoModelFor{'MultipleChoice' if kind == 'multiple choice' else 'SequenceClassification'}"
    with torch.device("meta"):
        stock = getattr(transformers, auto).from_config(new)
    setattr(stock, stock.base_model_prefix, GivenStates(family, stock.base_model))
    if has_weights:
        stock.to_empty(device="cpu")
        # The stock class's own rule, children before parents: a parent may overrule its children.
        stock.apply(lambda module: None if isinstance(module, GivenStates) else stock._init_weights(module))
    return FamilyHead(stock, kind)


def make_head(
    encoder: Encoder, *, labels: int, kind: HeadKind = "classification", layer: int | None = None, seed: int = 0
) -> FamilyHead:
    """Return the family's head for reading at a layer: its pooler is pretrained at the last layer, fresh below it.

    The pooler is all of the stock head except the classifier itself, if the checkpoint has weights for it (such as
    ModernBERT's dense layer). The final norm is always the pretrained one: a head below the last layer reads through
    it.

    Args:
        encoder: the encoder whose states it will read.
        labels: number of classes; 1 for regression.
        kind: kind of task.
        layer: the layer it reads; by default the last one.
        seed: random seed of the fresh weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = family_head(encoder.config, labels=labels, kind=kind)
    prefix = head.stock.base_model_prefix
    parts = encoder.parts()
    pretrained: dict[str, Tensor] = {f"{prefix}.{name}": value for name, value in parts.final_norm.items()}
    own = head.stock.state_dict()
    if layer is None or layer == encoder.depth:
        pretrained |= encoder.spare_tensors({name: value.shape for name, value in own.items()})
        if encoder.has_pretrained_pooler:
            pretrained |= {f"{prefix}.{name}": value for name, value in parts.pooler.items()}
    with torch.no_grad():
        for name, value in pretrained.items():
            if name in own and not value.is_meta:  # an encoder without weights is only counted
                own[name].copy_(value)
    return head


def make_mean_head(encoder: Encoder, *, labels: int, kind: HeadKind = "classification", seed: int = 0) -> MeanHead:
    """Return a fresh mean-pooled linear head for the encoder's states, with the dropout of its family's classifier.

    Args:
        encoder: the encoder whose states it will read.
        labels: number of classes; 1 for regression and multiple choice.
        kind: kind of task.
        seed: random seed of the fresh weights.
    """
    family = encoder.family
    rates = [rate for key in family.head_dropout_keys if (rate := getattr(encoder.config, key, None)) is not None]
    head = MeanHead(
        encoder.width,
        outputs=labels,
        dropout=float(rates[0]) if rates else 0.0,
        final_norm=copy.deepcopy(find(encoder.model, family.final_norm_path)),
        kind=kind,
    )
    source = torch.Generator().manual_seed(seed)
    nn.init.normal_(head.classifier.weight, std=0.02, generator=source)
    nn.init.zeros_(head.classifier.bias)
    return head
