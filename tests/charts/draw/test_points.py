from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from frostline.charts.draw import scatter, strip

HEIGHTS = [60.0, 61.0, 61.5, 64.0, 70.0, 62.0]


def drawn(*, density: bool, heights: dict[str, list[float]]) -> dict[str, Any]:
    rows = [{"case": case, "number": number, "mean": height}
            for case, each in heights.items() for number, height in enumerate(each, start=1)]  # fmt: skip
    return strip(rows, "number", "mean", x_title="order", y_title="quality", panel="case", density=density)


def shape_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in spec["data"]["values"] if "density" in row]


def test_the_shape_of_a_distribution_is_the_sum_of_bells_over_its_values():
    width = len(HEIGHTS) ** -0.2 * statistics.stdev(HEIGHTS)  # Scott's rule
    for row in shape_of(drawn(density=True, heights={"one": HEIGHTS})):
        bells = [math.exp(-((row["height"] - height) ** 2) / (2 * width**2)) for height in HEIGHTS]
        assert row["density"] == pytest.approx(sum(bells) / (len(HEIGHTS) * width * math.sqrt(2 * math.pi)), rel=1e-9)


def test_every_panel_has_a_shape_from_the_right_edge_a_quarter_wide():
    shape = shape_of(drawn(density=True, heights={"one": HEIGHTS, "two": [height / 2 for height in HEIGHTS]}))
    for case in ("one", "two"):
        mine = [row for row in shape if row["case"] == case]
        assert {row["to"] for row in mine} == {6.5}
        assert max(row["to"] - row["from"] for row in mine) == pytest.approx(5 / 4)


@pytest.mark.parametrize("heights", [HEIGHTS[:4], [61.0] * 8])
def test_few_or_equal_values_have_no_shape(heights: list[float]):
    assert drawn(density=True, heights={"one": heights}) == drawn(density=False, heights={"one": heights})


@pytest.mark.parametrize(
    ("seconds", "ends"),
    [([0.6, 103.0, 255.0], [0, 280.5]), ([80.0, 103.0, 255.0], None), ([-5.0, 20.0], None)],
)
def test_an_axis_begins_at_0_where_values_begin_near_it(seconds: list[float], ends: list[float] | None):
    rows = [{"seconds": second, "score": number, "kind": "tried"} for number, second in enumerate(seconds)]
    spec = scatter(rows, "seconds", "score", x_title="", y_title="", colour="kind", colour_title="")
    scales = [scale for scale in _scales(spec) if "domainMax" in scale]
    assert [[scale["domainMin"], pytest.approx(scale["domainMax"])] for scale in scales][:1] == ([ends] if ends else [])


def _scales(spec: Any) -> list[dict[str, Any]]:
    """Return the scales of all horizontal axes in a chart."""
    if isinstance(spec, list):
        return [scale for part in spec for scale in _scales(part)]
    if not isinstance(spec, dict):
        return []
    own = [spec["x"]["scale"]] if "scale" in spec.get("x", {}) and isinstance(spec["x"], dict) else []
    return own + [scale for name, part in spec.items() if name != "data" for scale in _scales(part)]
