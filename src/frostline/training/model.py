"""An encoder made ready for a plan: cut at the head, with the head on top, and only the plan's layers trainable."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from frostline.encoders.average_head import make_average_head
from frostline.encoders.dropout import set_dropout as set_dropout
from frostline.encoders.encoder import Encoder, unroll
from frostline.encoders.head_stack import HeadStack
from frostline.encoders.heads import FamilyHead, HeadKind, MeanHead, logits_of, make_head, make_mean_head
from frostline.encoders.parameter_groups import find
from frostline.encoders.surgery import truncate
from frostline.encoders.tokens import Tokens
from frostline.errors import OptionError
from frostline.kernels.batch_layout import Layout
from frostline.kernels.dropout import Noise
from frostline.plans.methods import METHODS
from frostline.records import Plan, Recipe

HeadChoice = Literal["family", "mean", "average"]


class Tunable(nn.Module):
    """An encoder and a head, of which the plan's layers train.

    Parameters are named as in the stock classes, with the prefixes `model.` and `head.`.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: FamilyHead | MeanHead | HeadStack,
        plan: Plan,
        *,
        frozen_dropout: bool = True,
        lower_dropout: bool = False,
    ) -> None:
        """Put the parts together; `make_tunable` is the usual way to get one.

        Args:
            encoder: the encoder, cut at the plan's head; its weights will be changed.
            head: the head on the last layer; or several, each of which reads the states of its own layer.
            plan: the layers that train.
            frozen_dropout: whether frozen layers above the lowest tuned one have dropout in training.
            lower_dropout: whether frozen layers below it, and frozen embeddings, have dropout in training.
        """
        super().__init__()
        self.encoder = encoder
        self.model = encoder.model
        self.head = head
        self.plan = plan
        self.frozen_dropout = frozen_dropout
        self.lower_dropout = lower_dropout
        self.depth_of_backward: int | None = None  # as autograd saw it in the last pass; None: only the head
        self.requires_grad_(False)
        self.head.requires_grad_(True)

    def layer(self, number: int) -> nn.Module:
        """Return the module of layer `number`, from 1."""
        return self.encoder.family.layers(self.model)[number - 1]

    def trainable(self) -> dict[str, nn.Parameter]:
        """Return the trainable parameters by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def planned(self) -> list[nn.Parameter]:
        """Return the parameters of the plan's layers, and of the embeddings if the plan tunes them."""
        parts = self.encoder.parts()
        groups = [parts.layers[number - 1] for number in self.plan.layers]
        return [value for named in (*groups, *[parts.embeddings] * self.plan.embeddings) for value in named.values()]

    def train(self, mode: bool = True) -> Tunable:
        """Set training mode for the layers that gradients pass through; below them only with `lower_dropout`."""
        super().train(False)
        if mode:
            self.head.train()
            for number in range(1, self.plan.head + 1):
                is_below = number < self.plan.lowest
                if number in self.plan.layers or (self.lower_dropout if is_below else self.frozen_dropout):
                    attached = self.encoder.family.attached(self.model, self.encoder.order[number - 1])
                    for module in (self.layer(number), *attached):
                        module.train()
            if self.plan.embeddings or self.lower_dropout:
                for path in self.encoder.family.embedding_paths:
                    if (part := find(self.model, path)) is not None:
                        part.train()
        self.training = mode
        return self

    def start(self, tokens: Tokens, layout: Layout, *, noise: Noise | None = None, padded: bool = False) -> Tensor:
        """Return the states that training starts from, (tokens, width): below the lowest tuned layer, or state 0."""
        states = self.encoder.embed(tokens, layout)
        return self.encoder.run(states, layout, 1, max(0, self.plan.lowest - 1), noise=noise, padded=padded)

    def logits(self, states: Tensor, layout: Layout, *, noise: Noise | None = None, padded: bool = False) -> Tensor:
        """Return (texts, outputs) from the states that training starts from; one number per text for multiple choice.

        Several heads read (tokens, heads, width) and give (texts, outputs, heads).

        Args:
            states: (tokens, width); (texts, width) where no layer runs and the head reads a single token of each text.
            layout: positions of each text's tokens.
            noise: random numbers of a training step's dropout.
            padded: run padded batches through the stock layers.
        """
        begin = max(1, self.plan.lowest)
        self.depth_of_backward = 0 if states.requires_grad else None
        for number, states in enumerate(  # noqa: B020
            self.encoder.run_each(
                states, layout, begin, self.plan.head, noise=noise, reads=self.head.reads, padded=padded
            ),
            start=begin,
        ):
            if self.depth_of_backward is None and states.requires_grad:
                self.depth_of_backward = number
        return logits_of(self.head, states, layout)


def make_tunable(
    encoder: Encoder,
    plan: Plan,
    *,
    outputs: int,
    kind: HeadKind = "classification",
    head: HeadChoice = "family",
    dropout: float | None = None,
    frozen_dropout: bool = True,
    lower_dropout: bool = False,
    seed: int = 0,
) -> Tunable:
    """Return a copy of the encoder, made ready for the plan.

    Args:
        encoder: the pretrained encoder; not changed.
        plan: layers that train, method, and layer that the head reads.
        outputs: classes, or 1 for regression and multiple choice.
        kind: kind of task.
        head: the family's own head; a mean-pooled linear one; or the family's own on the mean of all tokens.
        dropout: dropout probability; the encoder's own if not given.
        frozen_dropout: whether frozen layers above the lowest tuned one have dropout in training.
        lower_dropout: whether frozen layers below it, and frozen embeddings, have dropout in training.
        seed: seed of fresh weights.
    """
    check_plan(plan, encoder)
    module = choose_head(encoder, head, outputs=outputs, kind=kind, layer=plan.head, seed=seed)
    body = encoder.copy() if plan.head == encoder.depth else truncate(encoder, plan.head)
    if body.shares_layers and 0 < len(plan.layers) < plan.head:
        body = unroll(body)
    tunable = Tunable(body, module, plan, frozen_dropout=frozen_dropout, lower_dropout=lower_dropout)
    if dropout is not None:
        set_dropout(tunable, dropout, family=encoder.family)
    METHODS[plan.method].apply(tunable, plan.options, seed=seed)
    tunable.to(encoder.device)
    return tunable.eval()


def choose_head(
    encoder: Encoder, choice: HeadChoice, *, outputs: int, kind: HeadKind, layer: int, seed: int
) -> FamilyHead | MeanHead:
    """Return the family's own head for reading at a layer, or one that reads the mean of all tokens."""
    if choice == "average":
        return make_average_head(encoder, labels=outputs, kind=kind, seed=seed)
    if choice == "family" or getattr(encoder.config, "classifier_pooling", "cls") == "mean":
        # ModernBERT can be configured so that its own head reads the mean of all tokens.
        return make_head(encoder, labels=outputs, kind=kind, layer=layer, seed=seed)
    return make_mean_head(encoder, labels=outputs, kind=kind, seed=seed)


def check_plan(plan: Plan, encoder: Encoder) -> None:
    """Refuse a plan that this encoder cannot follow."""
    if plan.head > encoder.depth:
        raise OptionError(f"plan {plan}: {encoder.name} has layers 1..{encoder.depth}")
    METHODS[plan.method].check(plan.options)


def check_recipe(recipe: Recipe, encoder: Encoder) -> None:
    """Refuse a recipe that this encoder cannot follow."""
    is_mixed = recipe.precision == "bfloat16" and encoder.device.type != "cpu"
    if is_mixed and not encoder.family.takes_bfloat16:
        title = encoder.family.title
        raise OptionError(f"precision bfloat16: transformers' {title} does not run in mixed precision; use float32")
    if recipe.layer_rates is not None and len(recipe.layer_rates) != encoder.depth:
        raise OptionError(
            f"layer rates: {len(recipe.layer_rates)} for {encoder.name}, which has {encoder.depth} layers"
        )
    if recipe.layer_rates is not None and encoder.shares_layers:
        raise OptionError(f"layer rates: the layers of {encoder.name} have the same weights, so one rate is for all")


def as_tuned(tunable: Tunable) -> Encoder:
    """Return the tuned encoder with the tuned final norm, where there is one: training changes the head's copy."""
    tunable.eval()
    encoder, path = tunable.encoder, tunable.encoder.family.final_norm_path
    if path is None:
        return encoder
    head = tunable.head
    norm = getattr(head.stock.base_model, path) if isinstance(head, FamilyHead) else getattr(head, "final_norm", None)
    copied = encoder.copy()
    own = find(copied.model, path)
    if own is not None and norm is not None:
        own.load_state_dict(norm.state_dict())
    return copied
