"""Leave-one-group-out in closed form against refitting without the group."""

from __future__ import annotations

import pytest
import torch

from frostline.scoring.kernel_ridge import Probe, cross_fitted_errors, fit_probe, inverse_of, left_out_errors

GROUPS = {
    "single rows": torch.arange(12),
    "groups of several sizes": torch.tensor([7, 7, 1, 2, 3, 3, 3, 5, 7, 6, 1, 9]),
}


def refitted_errors(kernel, targets, groups, ignored=None):
    """Each group in turn is left out, the others are fitted, and it is predicted."""
    errors = torch.zeros_like(targets)
    known = torch.ones(len(groups), dtype=torch.bool) if ignored is None else ~ignored
    for group in groups[known].unique():
        out, fit = groups == group, known & (groups != group)
        solved = torch.linalg.solve(kernel[fit][:, fit] + torch.eye(int(fit.sum())).double(), targets[fit])
        errors[out] = targets[out] - kernel[out][:, fit] @ solved
    return errors


def refitted_choice(kernels, targets, groups, folds):
    """For each fold, the kernel that is best without it, by refitting; then each row's error by refitting."""
    errors = torch.zeros(len(groups), dtype=torch.float64)
    for fold in folds.unique():
        inside = folds == fold
        sums = [refitted_errors(kernel, targets, groups, inside).square().sum() for kernel in kernels]
        best = kernels[int(torch.stack(sums).argmin())]
        errors[inside] = refitted_errors(best, targets, groups).square().sum(1)[inside]
    return errors


def made_up(rows=12, *, seed=0, outputs=2):
    source = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, 5, generator=source, dtype=torch.float64)
    targets = features @ torch.randn(5, outputs, generator=source, dtype=torch.float64)
    return features, targets + torch.randn(rows, outputs, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("ignores", [False, True])
def test_errors_of_left_out_groups_equal_those_of_refitting(name, ignores):
    features, targets = made_up()
    kernel, groups = 3 * features @ features.T, GROUPS[name]
    ignored = torch.isin(groups, torch.tensor([3, 7])) if ignores else None
    ours = left_out_errors(inverse_of(kernel), targets, groups, ignored=ignored)
    torch.testing.assert_close(ours, refitted_errors(kernel, targets, groups, ignored))


@pytest.mark.parametrize("name", GROUPS)
def test_the_choice_between_kernels_never_sees_the_fold_it_is_judged_on(name):
    features, targets = made_up()
    groups = GROUPS[name]
    folds = groups % 3
    kernels = [weight * features[:, columns] @ features[:, columns].T
               for weight in (0.01, 1.0) for columns in (slice(2), slice(2, 5), slice(5))]  # fmt: skip
    ours = cross_fitted_errors(kernels, targets, groups, folds)
    torch.testing.assert_close(ours, refitted_choice(kernels, targets, groups, folds))
    choices = [refitted_choice(kernels, targets + (folds == fold)[:, None] * 100, groups, folds) for fold in range(3)]
    assert not any(torch.equal(choice, ours) for choice in choices)


def test_a_probe_is_a_ridge_regression_with_the_penalty_that_leaves_the_least_error():
    from sklearn.linear_model import Ridge

    features, targets = made_up(40)
    groups, weights = torch.arange(40) // 2, (0.01, 0.1, 1.0, 10.0)
    features[:, 1] = 3.0  # constant
    probe = fit_probe(features, targets, groups, weights=weights)
    standard = (features - features.mean(0)) / features.std(0).clamp(min=1e-9)
    kernel = standard @ standard.T / 5 + 1
    centred = targets - targets.mean(0)
    best = min(weights, key=lambda weight: refitted_errors(weight * kernel, centred, groups).square().sum())
    # The intercept is penalised like a weight: of a column of ones as wide as all features together.
    wide = torch.cat([standard, torch.full((40, 1), 5**0.5, dtype=torch.float64)], 1)
    theirs = Ridge(alpha=5 / best, fit_intercept=False).fit(wide.numpy(), centred.numpy())
    expected = torch.from_numpy(theirs.predict(wide.numpy())) + targets.mean(0)
    torch.testing.assert_close(probe(features), expected)


def test_directions_are_gradients_of_the_probes_outputs_up_to_a_rotation():
    features, targets = made_up(40, outputs=3)
    targets[:, 2] = -targets[:, 0] - targets[:, 1]  # as for classes, whose targets have a constant sum
    probe = fit_probe(features, targets, torch.arange(40), weights=(1.0,))
    directions = probe.directions(4)
    raw = probe.weights * probe.inverse_scale[:, None]
    assert len(directions) == 2
    torch.testing.assert_close(directions.T @ directions, raw @ raw.T)
    strongest = Probe(**{**vars(probe)}).directions(1)
    torch.testing.assert_close(strongest, directions[:1])
