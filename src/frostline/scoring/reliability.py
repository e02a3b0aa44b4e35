"""Reliability of layer scores: smoothness over layers, and agreement with probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from frostline.records.layer_scores import Agreement, Smoothness

Values = Sequence[float | None]


def smoothness(values: Values) -> Smoothness | None:
    """Return the smoothness over layers 1..L; None below three layers, with undefined ones, or when all are equal."""
    layers = [value for value in values[1:] if value is not None]
    if len(layers) < 3 or len(layers) != len(values) - 1:
        return None
    curve = np.array(layers)
    deviation = curve.std()
    if deviation <= 1e-12 * np.abs(curve).max():
        return None
    zeta = float(np.square(np.diff((curve - curve.mean()) / deviation, n=2)).sum())
    return Smoothness(zeta=zeta, per_layer=zeta / (len(layers) - 2))


def agreement(score: str, values: Values, probe: str, reached: Values) -> Agreement | None:
    """Return the agreement over the layers where both are defined; None for fewer than 3, or if one does not vary."""
    from scipy import stats

    from frostline.stats.spearman import spearman

    both = [(x, y) for x, y in zip(values[1:], reached[1:], strict=True) if x is not None and y is not None]
    if len(both) < 3:
        return None
    x, y = np.array(both).T
    if np.ptp(x) <= 1e-12 * np.abs(x).max() or np.ptp(y) <= 1e-12 * np.abs(y).max():
        return None
    line = stats.linregress(x, y)
    ranks, ranks_p = spearman(x, y)
    return Agreement(
        score=score,
        probe=probe,
        layers=len(both),
        pearson=float(line.rvalue),
        pearson_p=float(line.pvalue),
        spearman=ranks,
        spearman_p=ranks_p,
        slope=float(line.slope),
        r_squared=float(line.rvalue**2),
    )


def agreements(values: Mapping[str, Values], probes: Sequence[str]) -> list[Agreement]:
    """Return the agreement of every measured score with every measured probe.

    Args:
        values: values of each measured score, by its name.
        probes: the names of those that are probes.
    """
    pairs = [(name, probe) for name in values for probe in probes if name != probe]
    compared = (agreement(name, values[name], probe, values[probe]) for name, probe in pairs)
    return [pair for pair in compared if pair is not None]
