"""Tables of variability with unequal classes and with few rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from frostline.records.table import Cell, Table, table_of
from frostline.scoring.reliability import smoothness
from frostline.stats.intervals import correlate
from frostline.studies import Ask, Measured
from frostline.studies._comparisons import add_holm
from frostline.studies._tables import Curve, best_layer, group_done, mean_columns, mean_curve

SCORES = ("variability", "variability.collapse", "variability.crossfit")


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return how much variability changes, and its curves."""
    cases = [_Case(key, group) for key, group in group_done(points, ("encoder", "task", "arm")).items()]
    comparisons = [row for case in cases for row in case.comparisons()]
    for column in ("spearman_p", "probe_pearson_p"):
        comparisons = add_holm(comparisons, ("encoder", "task", "kind"), column=column)
    return [
        table_of(
            "robustness",
            "Smoothness of variability, and changes of its curve",
            comparisons,
            notes=[
                "each setting is compared with the reference: the mean over draws of the same variant with equal "
                "classes and the most rows; the reference's own row shows how much draws differ from their mean",
                "means over draws with 95% t-intervals; log_ratio: mean over layers of the absolute logarithm of the "
                "ratio to the reference",
                "probe_pearson: correlation over layers, as in the paper, of variability with the quality of a linear "
                "probe on the same draw's reference rows; the nearer to -1, the better variability predicts it",
                "spearman_p and probe_pearson_p: of the mean curves over draws; _holm: corrected for the rows of an "
                "encoder, task and kind of setting",
                "draws: number of draws with all layers defined; the others are left out",
            ],
        ),
        table_of(
            "curves",
            "Variability by layer",
            (row for case in cases for row in case.by_layer()),
            notes=["draws: number of draws with the layer defined, which the mean is over"],
        ),
    ]


class _Case:
    """All draws of one kind of setting for an encoder and a task."""

    def __init__(self, key: tuple[str, str, str], points: Sequence[Measured]) -> None:
        self._labels: dict[str, Cell] = dict(zip(("encoder", "task", "kind"), key, strict=True))
        self._points = points
        settings: Mapping[str, Sequence[int]] = points[0].spec.options["settings"]
        self._settings, self._poolings = settings, points[0].spec.options["states"]
        self._reference = next(iter(settings))  # equal classes and the most rows come first

    def _curves(self, setting: str, variant: str) -> list[Curve]:
        return [point.result.values["curves"][setting][variant] for point in self._points]

    def _probes(self, pooling: str) -> list[Curve]:
        """Return the probe's curve of each draw; older trials have none."""
        return [point.result.values.get("probes", {}).get(pooling, ()) for point in self._points]

    def _each(self) -> Iterator[tuple[dict[str, Cell], str, str]]:
        for setting, counts in self._settings.items():
            for pooling in self._poolings:
                for score in SCORES:
                    labels = {**self._labels, "setting": setting, "rows": sum(counts), "smallest_class": min(counts)}
                    yield labels | {"score": score, "states": pooling}, setting, f"{score}, {pooling}"

    def comparisons(self) -> Iterator[dict[str, Cell]]:
        for labels, setting, variant in self._each():
            reference = mean_curve(self._curves(self._reference, variant))
            curves, probes = self._curves(setting, variant), self._probes(str(labels["states"]))
            draws = [
                {**compare_curves(curve, reference), "probe_pearson": _correlate(curve, probe)[0]}
                for curve, probe in zip(curves, probes, strict=True)
                if None not in curve[1:]
            ]
            row: dict[str, Cell] = {**labels, "is_reference": setting == self._reference, "draws": len(draws)}
            for column in draws[0] if draws else ():
                least, most = _LIMITS.get(column, (0.0, math.inf))
                row |= mean_columns(column, [draw[column] for draw in draws], least=least, most=most)
            mean = mean_curve(curves)
            row["spearman_p"] = None if row["is_reference"] else _correlate(mean, reference, ranks=True)[1]
            row["probe_pearson_p"] = _correlate(mean, mean_curve(probes))[1]
            yield row

    def by_layer(self) -> Iterator[dict[str, Cell]]:
        for labels, setting, variant in self._each():
            for layer, values in enumerate(zip(*self._curves(setting, variant), strict=True)):
                known = [value for value in values if value is not None]
                row = {**labels, "layer": layer, "draws": len(known)}
                yield row | (mean_columns("mean", known, least=0.0) if known else {})


# The range of values that are not merely 0 or more; it clips intervals.
_LIMITS = {"spearman": (-1.0, 1.0), "pearson": (-1.0, 1.0), "probe_pearson": (-1.0, 1.0), "within_one": (0.0, 1.0),
           "best_layer": (1.0, math.inf)}  # fmt: skip


def compare_curves(curve: Curve, reference: Curve) -> dict[str, float | None]:
    """Return the smoothness of a curve and its distance from another, over layers 1..L; None where undefined."""
    smooth = smoothness(curve)
    ours, theirs = best_layer(curve, better="low"), best_layer(reference, better="low")
    distance = None if ours is None or theirs is None else abs(ours - theirs)
    ratios = [abs(math.log(a / b)) for a, b in zip(curve[1:], reference[1:], strict=True) if a and b]
    return {
        "zeta": None if smooth is None else smooth.zeta,
        "zeta_per_layer": None if smooth is None else smooth.per_layer,
        "spearman": _correlate(curve, reference, ranks=True)[0],
        "pearson": _correlate(curve, reference)[0],
        "best_layer": ours,
        "distance": distance,
        "within_one": None if distance is None else float(distance <= 1),
        "log_ratio": sum(ratios) / len(ratios) if ratios else None,
    }


def _correlate(curve: Curve, other: Curve, *, ranks: bool = False) -> tuple[float | None, float | None]:
    """Return the correlation of two curves over layers 1..L and its p-value; None where undefined."""
    if not curve or not other or None in (*curve[1:], *other[1:]):
        return None, None
    value, p = correlate(curve[1:], other[1:], ranks=ranks)
    return None if math.isnan(value) else value, None if math.isnan(p) else p
