"""Heads: exactly the one of the family's stock classes, and a mean-pooled linear one.

The family's head is not written again: the stock class (`BertForSequenceClassification`, ...) is built on the meta
device and its base model replaced by a stand-in that hands over given states, with the base model's own pooler and
final norm. Its forward pass is then the stock code from the states on, and its parameter names are the stock names, so
saving a model is putting the two halves together again.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import torch
from torch import Tensor, nn

from frostline.encoders.families import FAMILIES
from frostline.encoders.parameter_groups import find
from frostline.errors import EncoderError
from frostline.kernels.batch_layout import Layout, Reads

if TYPE_CHECKING:
    from frostline.encoders.encoder import Encoder
    from frostline.encoders.families._family import Config, Family, Model

HeadKind = Literal["classification", "regression", "multiple choice"]


class Head(Protocol):
    """What turns the states of a layer into logits."""

    kind: HeadKind

    @property
    def reads(self) -> Reads:
        """The tokens whose states are all that it looks at."""

    def __call__(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits from the states of texts, (texts, tokens, ...)."""


class GivenStates(nn.Module):
    """Stands where the base model was: returns the states that it is given, through final norm and pooler."""

    def __init__(self, family: Family, model: Model) -> None:
        super().__init__()
        self._pooler = family.pooler_path
        self._norm = family.final_norm_path
        for path in (self._pooler, self._norm):
            if path is not None:
                setattr(self, path, find(model, path))
        self._activation = getattr(model, "pooler_activation", None)  # ALBERT's pooler is a bare linear layer

    def forward(self, *args: object, inputs_embeds: Tensor, **others: object) -> Any:
        """Hugging Face's output record for the states, (texts, tokens, width)."""
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        norm = getattr(self, self._norm) if self._norm else None
        states = inputs_embeds if norm is None else norm(inputs_embeds)
        pooler = getattr(self, self._pooler) if self._pooler else None
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
        """The tokens whose states are all that the head looks at."""
        config = self.stock.config
        return FAMILIES[config.model_type].head_reads(config, self.kind)

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits from the states of the layer at which the head reads, before any final norm.

        Args:
            states: (texts, tokens, width); for multiple choice (questions, choices, tokens, width).
            mask: true at real tokens, one axis fewer than states; None where all are real.
        """
        given = None if mask is None else mask.to(states.dtype)
        if given is None and not self.reads.is_single:
            given = states.new_ones(states.shape[:-1])
        return cast(Tensor, self.stock(input_ids=None, inputs_embeds=states, attention_mask=given).logits)


class MeanHead(nn.Module):
    """One linear layer on the mean of all real tokens, as in paper 3; through the final norm where there is one."""

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
        """Logits from states: (..., tokens, width) to (..., outputs); a single output per choice loses its axis."""
        states = states if self.final_norm is None else self.final_norm(states)
        weights = states.new_ones(states.shape[:-1]) if mask is None else mask.to(states.dtype)
        pooled = (states * weights[..., None]).sum(-2) / weights.sum(-1, keepdim=True)
        logits = self.classifier(self.dropout(pooled))
        return cast(Tensor, logits.squeeze(-1) if states.dim() == 4 else logits)


def logits_of(head: Head, states: Tensor, layout: Layout) -> Tensor:
    """The head's (texts, outputs), a single output per text for multiple choice, from states (tokens, ...).

    Args:
        head: one, or a stack of several with an axis of their own in states and outputs.
        states: of the layer at which it reads, unpadded; of the tokens that it reads, at least.
        layout: where each text's tokens lie.
    """
    if head.reads.is_single:
        batch, mask = layout.read(states, head.reads)[:, None], None
    else:
        batch, mask = layout.pad(states), layout.padded.mask
    if head.kind == "multiple choice":
        # One choice per question: each gets its number whatever the other choices are.
        batch, mask = batch[:, None], None if mask is None else mask[:, None]
    return head(batch, mask)


def family_head(
    config: Config, *, labels: int, kind: HeadKind = "classification", has_weights: bool = True
) -> FamilyHead:
    """A freshly initialised head of the family's stock class.

    Args:
        config: the encoder's configuration.
        labels: number of classes; 1 for regression. Multiple choice has one logit per choice whatever is given.
        kind: of task.
        has_weights: False leaves it with shapes alone, to be counted.
    """
    import transformers

    family = FAMILIES[config.model_type]
    if kind == "multiple choice" and not family.has_multiple_choice:
        raise EncoderError(f"{family.title} has no multiple-choice class in transformers; use another encoder")
    new = type(config).from_dict(config.to_dict())
    new.num_labels = labels
    if kind == "regression":
        new.problem_type = "regression"
    auto = (
        transformers.AutoModelForMultipleChoice
        if kind == "multiple choice"
        else transformers.AutoModelForSequenceClassification
    )
    with torch.device("meta"):
        stock = auto.from_config(new)
    setattr(stock, stock.base_model_prefix, GivenStates(family, stock.base_model))
    if has_weights:
        stock.to_empty(device="cpu")
        _initialise(stock)
    return FamilyHead(stock, kind)


def _initialise(stock: Model) -> None:
    """Fresh weights by the stock class's own rule: parts before wholes, since a whole may overrule its parts."""
    stock.apply(lambda module: None if isinstance(module, GivenStates) else stock._init_weights(module))


def make_head(
    encoder: Encoder, *, labels: int, kind: HeadKind = "classification", layer: int | None = None, seed: int = 0
) -> FamilyHead:
    """The family's head for reading at a layer: its pooler pretrained at the last layer, fresh below it.

    What counts as pooler is all of the stock head but the classifier proper, where the checkpoint has weights for it
    (ModernBERT's dense layer, for one). The final norm is always the pretrained one: a head below the last layer reads
    through it.

    Args:
        encoder: the encoder whose states it will read.
        labels: number of classes; 1 for regression.
        kind: of task.
        layer: where it reads; the last one if not given.
        seed: of the fresh weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = family_head(encoder.config, labels=labels, kind=kind)
    at_top = layer is None or layer == encoder.depth
    prefix = head.stock.base_model_prefix
    parts = encoder.parts()
    known: dict[str, Tensor] = {f"{prefix}.{name}": value for name, value in parts.final_norm.items()}
    own = head.stock.state_dict()
    if at_top:
        known |= encoder.spare_tensors({name: value.shape for name, value in own.items()})
        if encoder.has_pretrained_pooler:
            known |= {f"{prefix}.{name}": value for name, value in parts.pooler.items()}
    with torch.no_grad():
        for name, value in known.items():
            if name in own and not value.is_meta:  # a weightless encoder is there to be counted
                own[name].copy_(value)
    return head


def make_mean_head(encoder: Encoder, *, labels: int, kind: HeadKind = "classification", seed: int = 0) -> MeanHead:
    """A fresh mean-pooled linear head for the encoder's states, with the dropout that its family gives a classifier.

    Args:
        encoder: the encoder whose states it will read.
        labels: number of classes; 1 for regression and multiple choice.
        kind: of task.
        seed: of the fresh weights.
    """
    family = encoder.family
    rates = [rate for key in family.head_dropout_keys if (rate := getattr(encoder.config, key, None)) is not None]
    path = family.final_norm_path
    head = MeanHead(
        encoder.width,
        outputs=labels,
        dropout=float(rates[0]) if rates else 0.0,
        final_norm=copy.deepcopy(find(encoder.model, path)) if path else None,
        kind=kind,
    )
    source = torch.Generator().manual_seed(seed)
    nn.init.normal_(head.classifier.weight, std=0.02, generator=source)
    nn.init.zeros_(head.classifier.bias)
    return head
