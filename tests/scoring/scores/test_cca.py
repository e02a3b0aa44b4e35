"""CCA equals a direct computation with inverse square roots, and is what it should be where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import linalg
from tests.scoring.scores.test_closed_forms import draw, evidence

from frostline.errors import MeasureError, OptionError
from frostline.scoring.score_inputs import divide
from frostline.scoring.scores import LAYER_SCORES, cca
from frostline.scoring.scores.information import information
from frostline.scoring.to_records import make_record


def inverse_root(matrix):
    return linalg.inv(linalg.sqrtm(matrix)).real


def direct_fold(x, y, fit, pick, score):
    """Textbook regularised CCA: whiten both sides, singular vectors, correlation of the projections."""

    def mean_correlation(rows, a, b):
        one, two = x[rows] @ a, y[rows] @ b
        values = [np.corrcoef(one[:, j], two[:, j])[0, 1] for j in range(a.shape[1] - 1)]
        return np.mean(values)

    xf, yf = x[fit] - x[fit].mean(0), y[fit] - y[fit].mean(0)
    xx, xy, yy = (left.T @ right / len(xf) for left, right in ((xf, xf), (xf, yf), (yf, yf)))
    best = (-9.0, None)
    for state_ridge in cca._STATE_RIDGES:
        wx = inverse_root(xx + state_ridge * np.trace(xx) / len(xx) * np.eye(len(xx)))
        for label_ridge in cca._LABEL_RIDGES:
            wy = inverse_root(yy + label_ridge * np.eye(len(yy)))
            left, _, right = np.linalg.svd(wx @ xy @ wy, full_matrices=False)
            maps = wx @ left, wy @ right.T
            reached = mean_correlation(pick, *maps)
            if reached > best[0]:
                best = (reached, maps)
    return mean_correlation(score, *best[1])


@pytest.mark.parametrize("classes", [2, 3])
def test_it_equals_the_direct_computation(classes):
    states, labels = draw(2, texts=200, width=6, classes=classes, layers=1)
    folds = divide(labels, torch.arange(200), 10, seed=0)
    x, y, parts = states[0].numpy(), np.eye(classes)[labels.numpy()], folds.numpy()
    ours = cca.fold_correlations(states[0], torch.tensor(y), folds)
    for fold in range(10):
        after = (fold + 1) % 10
        fit = (parts != fold) & (parts != after)
        expected = direct_fold(x, y, fit, parts == after, parts == fold)
        assert ours[fold].item() == pytest.approx(expected, abs=1e-5)


def test_affine_maps_of_the_states_change_nothing_without_regularisation(monkeypatch):
    monkeypatch.setattr(cca, "_STATE_RIDGES", (1e-13,))
    monkeypatch.setattr(cca, "_LABEL_RIDGES", (1e-13,))
    states, labels = draw(3, texts=300, width=5, layers=1)
    random = np.random.default_rng(0)
    moved = states @ torch.tensor(random.normal(size=(5, 5))) + torch.tensor(random.normal(size=5))
    one, two = (LAYER_SCORES["cca"].estimate(evidence(s, labels)).values for s in (states, moved))
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


def test_two_classes_apart_give_one_and_shuffled_labels_give_none():
    labels = torch.arange(400) % 2
    noise = torch.randn(20, 400, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    apart = LAYER_SCORES["cca"].estimate(evidence(noise[:1] + 20 * labels[None, :, None], labels)).values
    nothing = LAYER_SCORES["cca"].estimate(evidence(noise, labels)).values  # twenty independent draws of nothing
    error = nothing.std() / 20**0.5
    assert apart.item() > 0.99
    assert error < 0.03
    assert abs(nothing.mean()) < 3 * error


def test_a_class_too_small_for_ten_folds_is_refused():
    states, labels = draw(0, texts=40, classes=5)
    with pytest.raises(MeasureError, match="cca needs at least 10 texts of every class"):
        LAYER_SCORES["cca"].estimate(evidence(states, labels))


def test_clusters_that_follow_the_labels_carry_their_whole_information():
    labels = torch.arange(400) % 2
    noise = torch.randn(2, 400, 6, generator=torch.Generator().manual_seed(0))
    noise[1] += 30 * labels[:, None]
    values = LAYER_SCORES["information"].estimate(evidence(noise, labels)).values
    assert values[1].item() == pytest.approx(np.log(2), abs=0.02)
    assert values[0].item() < 0.2


@pytest.mark.parametrize("clusters", [2, 10, 50])
def test_information_has_its_expectation_over_shuffled_labels_as_chance_level(clusters):
    source = torch.Generator().manual_seed(0)
    states, labels = torch.randn(2, 600, 4, generator=source), torch.arange(600) % 3
    found = information(evidence(states, labels), clusters=clusters)
    # Labels that have nothing to do with the states: what is found is chance, and grows with the number of clusters.
    draws = [
        information(evidence(states, labels[torch.randperm(600, generator=source)]), clusters=clusters).values
        for _ in range(8)
    ]
    torch.testing.assert_close(torch.stack(draws).mean(0), found.chance, rtol=0.25, atol=0.01)
    assert found.chance.min() > {2: 0.005, 10: 0.1, 50: 0.5}[clusters]
    assert make_record(LAYER_SCORES["information"], found, seed=0, seconds=0.0).nulls == {
        "expected by chance": tuple(found.chance.tolist())
    }


def test_more_clusters_need_more_texts():
    states, labels = draw(0, texts=400, classes=2)
    with pytest.raises(MeasureError, match="information needs at least 500 texts, but got 400"):
        information(evidence(states, labels), clusters=50)
    with pytest.raises(OptionError, match="clusters 1"):
        information(evidence(states, labels), clusters=1)


def test_two_samples_are_two_halves_and_each_is_scored_by_itself():
    states, labels = draw(2, texts=240, width=6, classes=3, layers=2)
    given = evidence(states, labels)
    half = divide(labels, given.groups, 2, seed=given.seed)
    each = [cca.cca(given.take((half == part).nonzero()[:, 0]), repeats=2).values for part in (0, 1)]
    found = cca.cca(given, samples=2, repeats=2)
    torch.testing.assert_close(found.values, torch.stack(each).mean(0))
    assert found.freedom == 19
    with pytest.raises(MeasureError, match="10 texts of every class in every sample, but one has 7"):
        cca.cca(given, samples=10)
    with pytest.raises(OptionError, match="samples 0"):
        cca.cca(given, samples=0)


def test_information_needs_a_hundred_texts():
    states, labels = draw(0, texts=60, classes=2)
    with pytest.raises(MeasureError, match="information needs at least 100 texts, but got 60"):
        LAYER_SCORES["information"].estimate(evidence(states, labels))
