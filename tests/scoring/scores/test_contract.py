"""What every layer score must do; a new one is covered without editing this file."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.tiny import random_tokens, tiny_encoder

from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES, layer_score
from frostline.states.pooled import POOLINGS
from frostline.tasks import Split

TEXTS = 240


def make_evidence(seed: int = 0, *, shuffled: bool = False) -> Evidence:
    """A tiny encoder's view of texts, with states made up: layer 2 tells the classes apart best, layer 3 less well."""
    encoder = tiny_encoder("bert")
    source = torch.Generator().manual_seed(seed)
    labels = torch.arange(TEXTS) % 2
    states = torch.randn(encoder.depth + 1, TEXTS, encoder.width, generator=source)
    for layer, apart in ((2, 4.0), (3, 0.3)):
        states[layer] += apart * labels[:, None]
    lengths = tuple(3 + row % 5 for row in range(TEXTS))
    return Evidence(
        states=dict.fromkeys(POOLINGS, states),
        labels=labels,
        groups=torch.arange(TEXTS),
        kind="classification",
        metric="accuracy",
        pooling="mean",
        seed=seed,
        encoder=encoder,
        tokens=random_tokens(lengths),
        split=Split(texts=("a",) * TEXTS, labels=tuple(labels.tolist()), rows=tuple(range(TEXTS))),
    )


TAKES_GRADIENTS = ("fisher", "forecast", "gradient")
STATES_ONLY = [name for name in LAYER_SCORES if not name.startswith(TAKES_GRADIENTS)]
OF_CLASSES = [name for name in STATES_ONLY if LAYER_SCORES[name].needs != "nothing" and name != "rank"]


@pytest.fixture(scope="module")
def estimates():
    found = {}
    evidence = make_evidence()
    for name, score in LAYER_SCORES.items():
        found[name] = score.estimate(evidence)
    return found


@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_score_prefers_the_layer_whose_classes_lie_further_apart(name, estimates):
    values = estimates[name].values.nan_to_num(
        nan=float("inf") if LAYER_SCORES[name].better == "low" else -float("inf")
    )
    order = values if LAYER_SCORES[name].better == "low" else -values
    assert order[1:].argmin() + 1 == 2


@pytest.mark.parametrize("name", LAYER_SCORES.names())
def test_a_score_gives_a_value_and_an_uncertainty_for_every_layer(name, estimates):
    found = estimates[name]
    assert found.values.dtype == torch.float64
    assert found.values.shape == (5,)
    assert found.values[2:4].isfinite().all()  # where there is nothing but noise, a score may be undefined
    assert found.deviations is not None
    low, high = (end[2:4] for end in found.interval())
    assert (low <= found.values[2:4]).all()
    assert (high >= found.values[2:4]).all()
    assert (high - low).sum() > 0
    assert found.method in ("jackknife", "bootstrap", "folds", "blocks")


@pytest.mark.parametrize("name", LAYER_SCORES.names())
def test_a_score_without_uncertainty_gives_the_same_values(name):
    evidence = make_evidence()
    # In double precision, since a similarity near zero is a small difference of large sums.
    evidence = replace(evidence, states={pooling: states.double() for pooling, states in evidence.states.items()})
    alone, with_it = (LAYER_SCORES[name].estimate(evidence, uncertainty=wanted) for wanted in (False, True))
    torch.testing.assert_close(alone.values, with_it.values, rtol=1e-6, atol=1e-9, equal_nan=True)
    assert alone.interval() is None


@pytest.mark.parametrize("name", LAYER_SCORES.names())
def test_a_score_changes_neither_states_nor_labels_nor_the_random_state(name):
    evidence = make_evidence()
    states, labels = evidence.states["mean"].clone(), evidence.labels.clone()
    before = torch.get_rng_state()
    LAYER_SCORES[name].estimate(evidence, uncertainty=False)
    assert torch.equal(evidence.states["mean"], states)
    assert torch.equal(evidence.labels, labels)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", LAYER_SCORES.names())
def test_a_score_explains_itself_in_one_line(name):
    score = LAYER_SCORES[name]
    assert 20 < len(score.summary) < 120
    assert score.summary.endswith(".")
    assert score.paper


def test_a_score_without_docstring_is_refused():
    with pytest.raises(ValueError, match="no docstring"):

        @layer_score(better="low", paper="none")
        def mute(states, labels):
            return states

    with pytest.raises(ValueError, match="no docstring"):

        @layer_score(fitted=True, better="low", paper="none")
        def silent(evidence, *, uncertainty=True):
            return evidence


@pytest.mark.parametrize("name", LAYER_SCORES.names())
def test_the_order_of_rows_and_the_names_of_labels_do_not_matter(name, estimates):
    """Rows are known by their groups: in another order they fall into the same folds."""
    score, evidence = LAYER_SCORES[name], make_evidence()
    order = torch.randperm(TEXTS, generator=torch.Generator().manual_seed(1))
    renamed = replace(evidence, labels=torch.tensor([9, 4])[evidence.labels])
    for other in (evidence.take(order), renamed):
        values = score.estimate(other, uncertainty=False).values
        torch.testing.assert_close(values, estimates[name].values, rtol=1e-5, atol=1e-7, equal_nan=True)
