"""Tables of variability with unequal classes and with few rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from frostline.records.table import Cell, Table, table_of
from frostline.scoring.reliability import smoothness
from frostline.stats.curves import SURROGATES, correlate_curves
from frostline.studies import Ask, Measured
from frostline.studies._comparisons import add_holm
from frostline.studies._tables import Curve, best_layer, group_done, mean_columns, mean_curve

SCORES = ("variability", "variability.collapse", "variability.crossfit")


def tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    """Return how much variability changes, and its curves."""
    cases = group_done(points, ("encoder", "task", "arm"))
    variants = [variant for key, group in cases.items() for variant in _variants(key, group)]
    comparisons = list(map(_compare, variants))
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
                f"probe_pearson: correlation over layers, as in the paper, of variability with the quality of "
                f"{_probe_in_words(points)}; the nearer to -1, the better variability predicts it",
                SURROGATES,
                "spearman_p and probe_pearson_p: of the mean curves over draws; _holm: corrected for the rows of an "
                "encoder, task and kind of setting",
                "draws: number of draws with all layers defined; the others are left out",
            ],
        ),
        table_of(
            "curves",
            "Variability by layer",
            (row for variant in variants for row in _by_layer(variant)),
            notes=["draws: number of draws with the layer defined, which the mean is over"],
        ),
    ]


def _probe_in_words(points: Sequence[Measured]) -> str:
    if any(point.spec.options.get("probe") == "head" for point in points):
        return "the family's head, fitted on the same draw's reference rows and judged on the development set"
    return "a linear probe on the same draw's reference rows"


@dataclass(frozen=True, kw_only=True)
class _Variant:
    """All draws of one variant of variability in one setting.

    Args:
        labels: columns that identify it.
        curves: the curve of each draw.
        references: the curve of each draw with equal classes and the most rows.
        probes: the probe's curve of each draw; older trials have none.
        is_reference: whether the setting has equal classes and the most rows.
    """

    labels: Mapping[str, Cell]
    curves: Sequence[Curve]
    references: Sequence[Curve]
    probes: Sequence[Curve]
    is_reference: bool


def _variants(key: tuple[str, str, str], points: Sequence[Measured]) -> Iterator[_Variant]:
    """Yield every variant in every setting of one kind, for an encoder and a task."""
    options, values = points[0].spec.options, [point.result.values for point in points]
    reference = next(iter(options["settings"]))  # equal classes and the most rows come first
    for (setting, counts), pooling, score in product(options["settings"].items(), options["states"], SCORES):
        yield _Variant(
            labels={**dict(zip(("encoder", "task", "kind"), key, strict=True)), "setting": setting,
                    "rows": sum(counts), "smallest_class": min(counts), "score": score, "states": pooling},
            curves=[of_draw["curves"][setting][f"{score}, {pooling}"] for of_draw in values],
            references=[of_draw["curves"][reference][f"{score}, {pooling}"] for of_draw in values],
            probes=[of_draw.get("probes", {}).get(pooling, ()) for of_draw in values],
            is_reference=setting == reference,
        )  # fmt: skip


def _compare(variant: _Variant) -> dict[str, Cell]:
    """Return how much the draws of a variant differ from its reference."""
    reference, mean = mean_curve(variant.references), mean_curve(variant.curves)
    draws = [
        {**compare_curves(curve, reference), "probe_pearson": _correlate(curve, probe)[0]}
        for curve, probe in zip(variant.curves, variant.probes, strict=True)
        if None not in curve[1:]
    ]
    row: dict[str, Cell] = {**variant.labels, "is_reference": variant.is_reference, "draws": len(draws)}
    for column in draws[0] if draws else ():
        least, most = _LIMITS.get(column, (0.0, math.inf))
        row |= mean_columns(column, [draw[column] for draw in draws], least=least, most=most)
    row["spearman_p"] = None if variant.is_reference else _correlate(mean, reference, ranks=True)[1]
    row["probe_pearson_p"] = _correlate(mean, mean_curve(variant.probes))[1]
    return row


def _by_layer(variant: _Variant) -> Iterator[dict[str, Cell]]:
    for layer, values in enumerate(zip(*variant.curves, strict=True)):
        defined = [value for value in values if value is not None]
        means = mean_columns("mean", defined, least=0.0) if defined else {}
        yield {**variant.labels, "layer": layer, "draws": len(defined), **means}


# The range of values that are not merely 0 or more; it clips intervals.
_LIMITS = {"spearman": (-1.0, 1.0), "pearson": (-1.0, 1.0), "probe_pearson": (-1.0, 1.0), "within_one": (0.0, 1.0),
           "best_layer": (1.0, math.inf)}  # fmt: skip


def compare_curves(curve: Curve, reference: Curve) -> dict[str, float | None]:
    """Return the smoothness of a curve and its distance from another, over layers 1..L; None where undefined."""
    smooth = smoothness(curve)
    best, expected = best_layer(curve, better="low"), best_layer(reference, better="low")
    distance = None if best is None or expected is None else abs(best - expected)
    ratios = [abs(math.log(a / b)) for a, b in zip(curve[1:], reference[1:], strict=True) if a and b]
    return {
        "zeta": None if smooth is None else smooth.zeta,
        "zeta_per_layer": None if smooth is None else smooth.per_layer,
        "spearman": _correlate(curve, reference, ranks=True)[0],
        "pearson": _correlate(curve, reference)[0],
        "best_layer": best,
        "distance": distance,
        "within_one": None if distance is None else float(distance <= 1),
        "log_ratio": sum(ratios) / len(ratios) if ratios else None,
    }


def _correlate(curve: Curve, other: Curve, *, ranks: bool = False) -> tuple[float | None, float | None]:
    """Return the correlation of two curves over layers 1..L and its p-value; None where undefined."""
    if not curve or not other or None in (*curve[1:], *other[1:]):
        return None, None
    value, p = correlate_curves(curve[1:], other[1:], ranks=ranks)
    return None if math.isnan(value) else value, None if math.isnan(p) else p
