"""How far layer scores can be trusted: smoothness over layers, agreement with probes, and what chance would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frostline.records.layer_scores import Agreement, Smoothness

Values = Sequence[float | None]


def smoothness(values: Values) -> Smoothness | None:
    """The smoothness over layers 1..L, or None below three layers, with undefined ones, or when all are equal."""
    import numpy as np

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
    """The agreement over the layers where both are defined, or None where they are fewer than 3 or do not vary."""
    import numpy as np
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
    """Every score against every probe that was measured.

    Args:
        values: of each score that was measured, by its name.
        probes: the names of those that are probes.
    """
    pairs = [(name, probe) for name in values for probe in probes if name != probe]
    found = [agreement(name, values[name], probe, values[probe]) for name, probe in pairs]
    return [one for one in found if one is not None]
