"""The exact linear probe on all layers against scikit-learn's LogisticRegression on each.

Same rows, same standardisation, same objective (summed cross-entropy + half the squared weights). Three arms of
scikit-learn: as it comes, which stops early; the same solver driven to our objective; its fastest solver for such data.
How far each stays above the least objective is printed with its time. One process, interleaved, the same threads;
ratios are medians over rounds of times measured side by side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch import Tensor

from frostline.encoders.loading import load_encoder
from frostline.scoring.probes.logistic_solver import LinearFit, fit_logistic
from frostline.states.pooled import pooled_states
from frostline.tasks import load_task
from frostline.tasks.splits import sample

Fit = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]  # weights (width, outputs), intercepts
ARMS: dict[str, dict[str, Any]] = {
    "scikit-learn": {"max_iter": 1000},
    "scikit-learn to our objective": {"max_iter": 5000, "tol": 1e-7, "dtype": np.float64},
    "scikit-learn newton-cholesky": {"solver": "newton-cholesky"},
}
RATIOS = {
    "probe_vs_sklearn_default": "scikit-learn",
    "probe_vs_sklearn": "scikit-learn to our objective",
    "probe_vs_newton_cholesky": "scikit-learn newton-cholesky",
}


def compare_probe(states: Tensor, labels: Tensor, *, rounds: int = 3) -> dict[str, float]:
    """Times and ratios for fitting every layer, (layers, rows, width); prints a row of the table for each arm."""
    is_alive = (states.std(1) > 1e-6).all(0)  # an entry that we leave out would make it another objective
    layers = list(states[:, :, is_alive].contiguous())
    exact = [fit_logistic(layer.double(), labels, tolerance=1e-9) for layer in layers]
    least = [_objective(layer, labels, _unpack(fit)) for layer, fit in zip(layers, exact, strict=True)]
    arms: dict[str, Callable[[Tensor], Fit]] = {"frostline": lambda layer: _unpack(fit_logistic(layer, labels))}
    arms |= {name: partial(_scikit_learn, labels=labels, **options) for name, options in ARMS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    excess = dict.fromkeys(arms, 0.0)
    with threadpool_limits(torch.get_num_threads()):
        for _ in range(rounds):
            for name, fit in arms.items():
                started = time.perf_counter()
                found = [fit(layer) for layer in layers]
                seconds[name].append(time.perf_counter() - started)
                objectives = [_objective(layer, labels, one) for layer, one in zip(layers, found, strict=True)]
                excess[name] = max(a - b for a, b in zip(objectives, least, strict=True))
    ratios = {
        name: statistics.median(a / b for a, b in zip(times, seconds["frostline"], strict=True))
        for name, times in seconds.items()
    }
    print(f"linear probes, {' x '.join(map(str, states.shape))}, {int(labels.max()) + 1} classes")
    for name, times in seconds.items():
        print(f"  {name:30} {min(times):7.2f} s  {ratios[name]:5.1f}x  objective above the least {excess[name]:.0e}")
    return {key: ratios[name] for key, name in RATIOS.items()}


def _unpack(found: LinearFit) -> Fit:
    return found.weights.double().numpy(), found.intercepts.double().numpy()


def _scikit_learn(layer: Tensor, *, labels: Tensor, dtype: Any = np.float32, **options: Any) -> Fit:
    standard = StandardScaler().fit_transform(layer.numpy().astype(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(**options).fit(standard, labels.numpy())
    return model.coef_.T.astype(np.float64), model.intercept_.astype(np.float64)


def _objective(layer: Tensor, labels: Tensor, found: Fit) -> float:
    weights, intercepts = found
    logits = StandardScaler().fit_transform(layer.double().numpy()) @ weights + intercepts
    logits = np.concatenate([np.zeros_like(logits), logits], axis=1) if logits.shape[1] == 1 else logits
    loss = torch.nn.functional.cross_entropy(torch.tensor(logits), labels, reduction="sum")
    return float(loss) + 0.5 * float(np.square(weights).sum())


def main() -> None:
    """Measure on the embedded default: film reviews, or random states of a given shape."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--random", type=int, nargs=4, metavar=("LAYERS", "ROWS", "WIDTH", "CLASSES"))
    parser.add_argument("--examples", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.random:
        count, rows, width, classes = options.random
        source = torch.Generator().manual_seed(0)
        labels = torch.arange(rows) % classes
        centres = 0.1 * torch.randn(classes, width, generator=source)
        mixing = torch.randn(width, width, generator=source) * torch.logspace(0, -2, width)
        states = (torch.randn(count, rows, width, generator=source) + centres[labels]) @ mixing
    else:
        encoder, task = load_encoder(None), load_task("movies", seed=0)
        drawn = sample(task.train, options.examples, seed=0)
        states = pooled_states(encoder, encoder.tokenize(drawn.texts), poolings=("mean",))["mean"]
        labels = torch.tensor(drawn.labels)
    found = compare_probe(states, labels, rounds=options.rounds)
    print(json.dumps({key: round(value, 2) for key, value in found.items()}))


if __name__ == "__main__":
    main()
