"""Heads at every layer of a frozen encoder: copies of a tuned head or fresh ones, trained together."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.head_stack import HeadStack
from frostline.encoders.heads import FamilyHead, MeanHead
from frostline.kernels.batch_layout import Ints, Reads
from frostline.progress import Progress, silent
from frostline.records import Recipe
from frostline.states.frozen import states_of_layers
from frostline.studies._tables import judged_split
from frostline.tasks import Task
from frostline.training.dataset import Examples
from frostline.training.many_heads import stacked, train_heads
from frostline.training.model import choose_head, set_dropout
from frostline.training.shared_inputs import SharedInputs


def head_recipe(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    """Return the recipe of heads: that of the whole model, unless the options set another rate or other epochs."""
    if options["head_epochs"]:
        recipe = replace(recipe, epochs=int(options["head_epochs"]), steps=None)
    return replace(recipe, learning_rate=float(options["head_rate"])) if options["head_rate"] else recipe


def further_heads(head: FamilyHead | MeanHead, depth: int) -> HeadStack:
    """Return a copy of a tuned head, its pooler included, for each of layers 1..L."""
    return HeadStack([copy.deepcopy(head) for _ in range(depth)])


def fresh_heads(encoder: Encoder, task: Task, recipe: Recipe) -> HeadStack:
    """Return fresh heads for layers 1..L, the top included, so that layers are comparable."""
    bare = copy.copy(encoder)
    bare.has_pretrained_pooler, bare.folder = False, None
    heads = []
    for layer in range(1, encoder.depth + 1):
        head = choose_head(bare, recipe.head, outputs=task.outputs, kind=task.kind, layer=layer, seed=recipe.seed)
        if recipe.dropout is not None:
            set_dropout(head, recipe.dropout, family=encoder.family)
        heads.append(head)
    return HeadStack(heads)


def rows_at_all_layers(
    shared: SharedInputs, encoder: Encoder, recipe: Recipe, *, train_rows: int | None, reads: Reads
) -> dict[str, Examples]:
    """Return the rows of every split with their states at layers 1..L of the encoder.

    Args:
        shared: the inputs of the task; its encoder tokenizes the texts.
        encoder: tuned or pretrained.
        recipe: the seed of the training rows, and the number format of states.
        train_rows: number of training rows; None for all.
        reads: the tokens whose states the heads read.
    """
    chosen = None if train_rows is None else shared.some_rows(train_rows, seed=recipe.seed)
    return {
        name: _rows(shared, name, chosen if name == "train" else None, encoder, recipe, reads)
        for name in shared.task.splits
    }


def _rows(
    shared: SharedInputs, split: str, chosen: Ints | None, encoder: Encoder, recipe: Recipe, reads: Reads
) -> Examples:
    tokens, offsets = shared.tokens(split)
    labels = torch.tensor(shared.task.splits[split].labels)
    rows = Examples(tokens=tokens, states=None, labels=labels, offsets=offsets)
    rows = rows if chosen is None else rows.take(chosen)
    return replace(rows, states=states_of_layers(encoder, rows.tokens, dtype=recipe.cache_dtype, reads=reads))


def read_by(
    heads: HeadStack,
    encoder: Encoder,
    splits: Mapping[str, Examples],
    task: Task,
    recipe: Recipe,
    progress: Progress = silent,
) -> list[Tensor]:
    """Return the outputs of the heads of layers 1..L for the judged rows, after training on the encoder's states.

    All heads train together, each as it would alone.

    Args:
        heads: a head for each layer, where it starts from.
        encoder: the encoder whose states they read, left unchanged.
        splits: the result of `rows_at_all_layers`.
        task: the task.
        recipe: recipe of every head.
        progress: progress callback.
    """
    tunable = stacked(encoder, heads)
    train_heads(
        tunable,
        splits["train"],
        splits.get("validation"),
        recipe,
        metrics=task.metrics,
        learning_rate=recipe.learning_rate or 0.0,
        progress=progress,
    )
    judged, _ = judged_split(task)
    return list(splits[judged].outputs(tunable).unbind(-1))
