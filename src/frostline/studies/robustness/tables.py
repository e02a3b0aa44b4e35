"""What the study of robustness says in tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from frostline.records.table import Cell, Table, table_of
from frostline.scoring.reliability import smoothness
from frostline.stats.intervals import correlate
from frostline.studies import Ask, Measured
from frostline.studies._comparisons import correct_known
from frostline.studies._tables import Curve, group_points, mean_columns, mean_curve

SCORES = ("variability", "variability.collapse", "variability.crossfit")


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """How far variability stays the same, and its curves."""
    cases = [_Case(key, group) for key, group in group_points(_done(points), ("encoder", "task", "arm")).items()]
    compared_all = [row for case in cases for row in case.comparisons()]
    for column in ("spearman_p", "probe_pearson_p"):
        correct_known(compared_all, ("encoder", "task", "kind"), column=column)
    return [
        table_of(
            "robustness",
            "Smoothness of variability, and how far its curve stays the same",
            compared_all,
            notes=[
                "compared with the mean over draws of the reference: the same variant with equal classes and the most "
                "rows of its kind of setting; its own row says how much draws differ by themselves, or rather from a "
                "mean that holds them",
                "means over draws with 95% t-intervals; log_ratio is the mean over layers of the absolute logarithm of "
                "the ratio to the reference",
                "probe_pearson is the paper's correlation, over layers, of variability with the quality of a linear "
                "probe on the same draw's reference rows; the nearer to -1 the better variability predicts it",
                "spearman_p and probe_pearson_p are of the mean curves over draws; _holm: corrected for the rows of an "
                "encoder, task and kind of setting",
                "draws is how many have all layers defined; the others are left out",
            ],
        ),
        table_of(
            "curves",
            "Variability by layer",
            (row for case in cases for row in case.by_layer()),
            notes=["draws is how many have the layer defined; the mean is of these"],
        ),
    ]


def _done(points: Sequence[Measured]) -> list[Measured]:
    return [point for point in points if point.is_done]


class _Case:
    """All draws of one kind of setting for an encoder and a task."""

    def __init__(self, key: tuple[str, str, str], points: Sequence[Measured]) -> None:
        self._said: dict[str, Cell] = dict(zip(("encoder", "task", "kind"), key, strict=True))
        self._points = points
        settings: Mapping[str, Sequence[int]] = points[0].spec.options["settings"]
        self._settings, self._poolings = settings, points[0].spec.options["states"]
        self._reference = next(iter(settings))  # equal classes, the most rows: it is yielded first

    def _curves(self, setting: str, variant: str) -> list[Curve]:
        return [point.result.values["curves"][setting][variant] for point in self._points]

    def _probes(self, pooling: str) -> list[Curve]:
        """The probe's curve in each draw; trials from before it was recorded have none."""
        return [point.result.values.get("probes", {}).get(pooling, ()) for point in self._points]

    def _each(self) -> Iterator[tuple[dict[str, Cell], str, str]]:
        for setting, counts in self._settings.items():
            for pooling in self._poolings:
                for score in SCORES:
                    said = {**self._said, "setting": setting, "rows": sum(counts), "smallest_class": min(counts)}
                    yield said | {"score": score, "states": pooling}, setting, f"{score}, {pooling}"

    def comparisons(self) -> Iterator[dict[str, Cell]]:
        for said, setting, variant in self._each():
            reference = mean_curve(self._curves(self._reference, variant))
            drawn = zip(self._curves(setting, variant), self._probes(str(said["states"])), strict=True)
            found = [
                {**compare_curves(curve, reference), "probe_pearson": _correlation(curve, probe)}
                for curve, probe in drawn
                if None not in curve[1:]
            ]
            row: dict[str, Cell] = {**said, "is_reference": setting == self._reference, "draws": len(found)}
            for column in found[0] if found else ():
                least, most = _LIMITS.get(column, (0.0, math.inf))
                row |= mean_columns(column, [one[column] for one in found], least=least, most=most)
            mean = mean_curve(self._curves(setting, variant))
            row["spearman_p"] = None if row["is_reference"] else _chance(mean, reference, ranks=True)
            row["probe_pearson_p"] = _chance(mean, mean_curve(self._probes(str(said["states"]))))
            yield row

    def by_layer(self) -> Iterator[dict[str, Cell]]:
        for said, setting, variant in self._each():
            for layer, values in enumerate(zip(*self._curves(setting, variant), strict=True)):
                known = [value for value in values if value is not None]
                row = {**said, "layer": layer, "draws": len(known)}
                yield row | (mean_columns("mean", known, least=0.0) if known else {})


# What values can be, where they are not merely 0 or more: an interval goes no further.
_LIMITS = {"spearman": (-1.0, 1.0), "pearson": (-1.0, 1.0), "probe_pearson": (-1.0, 1.0), "within_one": (0.0, 1.0),
           "best_layer": (1.0, math.inf)}  # fmt: skip


def compare_curves(curve: Curve, reference: Curve) -> dict[str, float | None]:
    """How smooth a curve is and how near another one, over layers 1..L; None where that is undefined."""
    smooth = smoothness(curve)
    ours, theirs = _best(curve), _best(reference)
    distance = None if ours is None or theirs is None else abs(ours - theirs)
    ratios = [abs(math.log(a / b)) for a, b in zip(curve[1:], reference[1:], strict=True) if a and b]
    return {
        "zeta": None if smooth is None else smooth.zeta,
        "zeta_per_layer": None if smooth is None else smooth.per_layer,
        "spearman": _correlation(curve, reference, ranks=True),
        "pearson": _correlation(curve, reference),
        "best_layer": ours,
        "distance": distance,
        "within_one": None if distance is None else float(distance <= 1),
        "log_ratio": sum(ratios) / len(ratios) if ratios else None,
    }


def _correlation(curve: Curve, other: Curve, *, ranks: bool = False) -> float | None:
    """Over layers 1..L; None where it is undefined."""
    if not other or None in other[1:]:
        return None
    found = correlate(curve[1:], other[1:], ranks=ranks)[0]
    return None if math.isnan(found) else found


def _chance(curve: Curve, other: Curve, *, ranks: bool = False) -> float | None:
    """The p-value of the correlation of two mean curves over layers 1..L; None where it is undefined."""
    if not curve or not other or None in (*curve[1:], *other[1:]):
        return None
    found = correlate(curve[1:], other[1:], ranks=ranks)[1]
    return None if math.isnan(found) else found


def _best(curve: Curve) -> int | None:
    known = [(value, layer) for layer, value in enumerate(curve) if layer and value is not None]
    return min(known)[1] if known else None
