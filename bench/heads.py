"""How fast heads at all layers train together, next to one after the other. `python bench/heads.py [ROWS]`

Prints a table and, as the last line, one flat JSON object of ratios. Both sides start from the same cached states of
all layers, make their heads anew, run in one process, taking turns, with one thread, and must have the same losses.
There is the embedded encoder, 6 layers of width 384, and a BERT of 12 layers of width 768 (random weights: speed does
not depend on them), on texts of the embedded movies.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace

import numpy as np
import torch
from sides import race, row
from transformers import BertConfig, BertModel

from frostline.encoders.encoder import Encoder
from frostline.encoders.head_stack import HeadStack
from frostline.encoders.heads import make_head
from frostline.encoders.loading import load_encoder
from frostline.kernels.batch_layout import Reads
from frostline.records import Plan, Recipe
from frostline.states.frozen import FrozenStates, states_of_layers
from frostline.tasks import Split, load_task
from frostline.tasks.splits import sample
from frostline.training.dataset import Examples
from frostline.training.loop import Trained, train
from frostline.training.many_heads import stacked, train_heads
from frostline.training.model import make_tunable

ROWS, ROUNDS = 1000, 5
RECIPE = Recipe(epochs=2, batch=16, threads=1)
HOW = {"metrics": ("accuracy",), "learning_rate": 1e-3}


def wide_encoder(like: Encoder) -> Encoder:
    """A random BERT-base with the embedded tokenizer."""
    torch.manual_seed(0)
    return Encoder(BertModel(BertConfig(vocab_size=like.config.vocab_size)).eval(), like.tokenizer, name="12 x 768")


def cached_rows(encoder: Encoder, split: Split) -> Examples:
    """The rows with their states at all layers."""
    tokens = encoder.tokenize(split.texts)
    states = states_of_layers(encoder, tokens, dtype="float16", reads=Reads.FIRST)
    return Examples(tokens=tokens, states=states, labels=torch.tensor(split.labels), offsets=None)


def at_layer(rows: Examples, layer: int) -> Examples:
    """The same rows with the states of one layer."""
    all_layers = rows.states
    one = FrozenStates(all_layers.encoder, rows.tokens, layer, dtype="float16", reads=Reads.FIRST)
    one.kept = all_layers.kept[:, layer - 1]
    return replace(rows, states=one)


def compare(encoder: Encoder, train_split: Split, held_split: Split) -> float:
    """How many times faster together is."""
    rows, held = cached_rows(encoder, train_split), cached_rows(encoder, held_split)
    each = [(at_layer(rows, layer), at_layer(held, layer)) for layer in range(1, encoder.depth + 1)]

    def together() -> list[Trained]:
        layers = range(1, encoder.depth + 1)
        stack = HeadStack([make_head(encoder, labels=2, layer=layer) for layer in layers])
        return train_heads(stacked(encoder, stack), rows, held, RECIPE, **HOW)

    def one_by_one() -> list[Trained]:
        trained = []
        for layer, data in enumerate(each, start=1):
            tunable = make_tunable(encoder, Plan(layers=(), head=layer), outputs=2)
            trained.append(train(tunable, *data, RECIPE, **HOW))
        return trained

    losses = [[[record["loss"] for record in one.history] for one in way()] for way in (together, one_by_one)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    ours, theirs, ratio = race(together, one_by_one, rounds=ROUNDS)
    row(f"{encoder.name}: {encoder.depth} heads, {len(rows)} rows, {RECIPE.epochs} epochs", ours, theirs, ratio)
    return ratio


def main() -> None:
    """Run both comparisons."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    task = load_task("movies")
    splits = sample(task.train, count, seed=0), sample(task.test, count // 4, seed=0)
    print(f"{'':58s} {'together':>9s}   {'in turn':>9s}   {'ratio':>7s}")
    small = load_encoder()
    ratios = {
        "heads_together_6_layers": compare(small, *splits),
        "heads_together_12_layers": compare(wide_encoder(small), *splits),
    }
    print(json.dumps({name: round(value, 3) for name, value in ratios.items()}))


if __name__ == "__main__":
    main()
