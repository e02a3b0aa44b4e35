"""Uncertainty: the jackknife against textbook cases, coverage of intervals, and which layers are told apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from frostline.scoring.score_inputs import divide
from frostline.scoring.scores.variability import variability
from frostline.scoring.uncertainty import Estimate, from_bootstrap, from_folds, from_jackknife, jackknife


def test_the_jackknife_of_a_mean_is_the_standard_error():
    """Leaving out one value at a time is exact for a mean."""
    values = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = jackknife(lambda rows: values[rows].mean()[None], torch.arange(50))
    assert found.deviations is not None
    error = found.deviations.square().sum(0).sqrt().item()
    assert error == pytest.approx(values.std().item() / 50**0.5, rel=1e-9)
    assert found.freedom == 49


def test_independent_parts_give_the_standard_error_of_their_mean():
    parts = torch.randn(10, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = from_folds(parts, uncertainty=True)
    torch.testing.assert_close(found.values, parts.mean(0))
    assert found.deviations is not None
    torch.testing.assert_close(found.deviations.square().sum(0).sqrt(), parts.std(0) / 10**0.5)


def test_a_bootstrap_gives_the_deviation_of_its_replicates():
    replicates = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = from_bootstrap(replicates.mean(0), replicates)
    assert found.deviations is not None
    torch.testing.assert_close(found.deviations.square().sum(0).sqrt(), replicates.std(0))


def test_intervals_of_variability_cover_the_truth_nearly_as_often_as_they_say():
    """300 draws of 400 texts; the truth is the population's. Nominal 95%; the standard error of 300 draws is 1.3%."""
    width, texts = 8, 400
    random = np.random.default_rng(0)
    difference, deviations = random.normal(size=width), random.uniform(0.5, 1.5, width)
    truth = float(2 * (difference**2 * deviations**2).sum() / (difference @ difference) ** 2)
    labels = torch.arange(texts) % 2
    covered = 0
    for seed in range(300):
        noise = np.random.default_rng(seed).normal(size=(texts, width)) * deviations
        states = torch.tensor(noise + labels.numpy()[:, None] * difference)[None]
        blocks = divide(labels, torch.arange(texts), 20, seed=seed)
        found = jackknife(lambda rows, states=states: variability(states[:, rows], labels[rows]), blocks)
        low, high = found.interval() or (None, None)
        covered += bool(low[0] <= truth <= high[0])
    assert 0.90 <= covered / 300 <= 0.985


def test_a_plain_bootstrap_would_be_biased_for_a_score_of_spread():
    """Why the jackknife: copies of a text shrink the within-class spread."""
    random = np.random.default_rng(0)
    labels = torch.arange(100) % 2
    states = torch.tensor(random.normal(size=(1, 100, 60)) + labels.numpy()[:, None] * 0.5)
    value = variability(states, labels).item()
    picks = [torch.tensor(random.integers(0, 100, 100)) for _ in range(50)]
    resampled = np.mean([variability(states[:, rows], labels[rows]).item() for rows in picks])
    assert resampled < 0.9 * value


def make(values, deviations, freedom=float("inf")) -> Estimate:
    return Estimate(
        values=torch.tensor(values, dtype=torch.float64),
        deviations=torch.tensor(deviations, dtype=torch.float64),
        freedom=freedom,
        method="bootstrap",
    )


def test_layers_whose_errors_go_together_are_told_apart():
    """Both have wide intervals, but their difference is certain."""
    together = make([0.0, 1.0, 1.1], [[0.0, 0.5, 0.5]])
    apart = make([0.0, 1.0, 1.1], [[0.0, 0.5, 0.0], [0.0, 0.0, 0.5]])
    assert together.tied("low") == [1]
    assert apart.tied("low") == [1, 2]


def test_the_probability_of_best_is_that_of_the_normal_distribution():
    found = make([0.0, 1.0, 2.0], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    probability = found.probability_of_best("low")
    assert probability is not None
    # P(normal(1, 2) > 0), the difference of two independent unit normals
    assert probability[1].item() == pytest.approx(0.760, abs=0.03)
    assert probability.sum().item() == pytest.approx(1)
    assert probability[0] == 0
    high = found.probability_of_best("high")
    assert high is not None
    assert high[2] > 0.7


def test_undefined_layers_are_never_best_and_never_tied():
    found = make([0.0, float("nan"), 2.0], [[0.0, float("nan"), 1.0]])
    assert found.tied("low") == [2]
    probability = found.probability_of_best("low")
    assert probability is not None
    assert probability.tolist() == [0.0, 0.0, 1.0]
    assert make([0.0, float("nan")], [[0.0, 0.0]]).tied("low") == []


def test_without_uncertainty_there_is_no_interval():
    found = Estimate(values=torch.tensor([0.0, 2.0, 1.0]))
    assert found.interval() is None
    assert found.probability_of_best("low") is None
    assert found.tied("low") == [2]


def test_the_interval_widens_with_few_degrees_of_freedom():
    replicates = torch.randn(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    few = from_jackknife(torch.cat([replicates.mean(0, keepdim=True), replicates]))
    many = Estimate(values=few.values, deviations=few.deviations)
    assert (few.interval()[1] - few.values > many.interval()[1] - many.values).all()


@pytest.mark.parametrize("count", [3, 20])
def test_blocks_share_classes_evenly_and_divide_no_group(count):
    labels = torch.tensor([0] * 70 + [1] * 30)
    blocks = divide(labels, torch.arange(100), count, seed=0)
    sizes = torch.bincount(blocks)
    assert sizes.max() - sizes.min() <= 1
    for label in (0, 1):
        inside = torch.bincount(blocks[labels == label], minlength=count)
        assert inside.max() - inside.min() <= 1
    groups = torch.arange(100) // 4
    grouped = divide(labels, groups, count, seed=0)
    for group in range(25):
        assert len(grouped[groups == group].unique()) == 1


def test_blocks_depend_on_the_seed_alone():
    groups = torch.arange(50)
    one, two, three = (divide(None, groups, 5, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
