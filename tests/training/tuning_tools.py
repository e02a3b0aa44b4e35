"""What tests of tuning share: tiny tasks without texts, and examples made straight from tokens."""

from __future__ import annotations

import numpy as np
import torch
from tests.tiny import VOCABULARY, tiny_encoder

from frostline.encoders.tokens import Tokens
from frostline.kernels.batch_layout import Reads
from frostline.records import Plan, Recipe
from frostline.states.cache import open_together
from frostline.states.frozen import DType, StatesAt
from frostline.training.checkpoints import Checkpoints
from frostline.training.dataset import Examples
from frostline.training.loop import Trained, train
from frostline.training.model import Tunable, make_tunable

CLASSES = 3


def many_tokens(count: int = 40, *, seed: int = 0) -> Tokens:
    """Random texts of 2 to 12 tokens."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, 13, count)
    return Tokens(
        ids=random.integers(5, VOCABULARY, int(lengths.sum())),
        types=np.zeros(int(lengths.sum()), dtype=np.int64),
        lengths=lengths,
        truncated=0,
    )


def many_labels(count: int = 40, *, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).integers(0, CLASSES, count))


def examples_for(
    tunable: Tunable, tokens: Tokens, labels: torch.Tensor, *, keep: bool = False, dtype: DType = "float32"
) -> Examples:
    """The texts as training takes them, through the cache or computed when asked for."""
    plan = tunable.plan
    states = None
    if plan.lowest:
        reads = tunable.head.reads if plan.lowest > plan.head else Reads.ALL
        layers = [StatesAt(layer=plan.lowest - 1, reads=reads)]
        (states,), notes = open_together(tunable.encoder, tokens, layers, dtype=dtype, keep=keep)
        assert states.is_kept == keep, notes
    return Examples(tokens=tokens, states=states, labels=labels, offsets=None)


def tiny_tunable(name: str = "bert", plan: Plan | None = None, **options: object) -> Tunable:
    """A tiny encoder made ready for a plan."""
    encoder = tiny_encoder(name)
    return make_tunable(encoder, plan or Plan.span(3, 4, 4), outputs=CLASSES, **options)  # type: ignore[arg-type]


def train_tiny(
    recipe: Recipe, *, plan: Plan | None = None, validation: bool = True, checkpoints: Checkpoints | None = None
) -> tuple[Tunable, Trained]:
    """A tiny model trained on random texts, which are its validation rows too."""
    tunable = tiny_tunable("bert", plan)
    rows = examples_for(tunable, many_tokens(), many_labels())
    rate = recipe.learning_rate or 0.0
    kept = rows if validation else None
    return tunable, train(
        tunable, rows, kept, recipe, metrics=("accuracy",), learning_rate=rate, checkpoints=checkpoints
    )
