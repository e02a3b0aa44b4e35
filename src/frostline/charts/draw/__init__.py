"""The few kinds of chart that all figures consist of, as Vega-Lite specifications built with Altair.

Every mark shows its values on hover. Uncertain values have their interval drawn. Groups differ in shape as well as in
colour.
"""

from frostline.charts.draw.columns import bars
from frostline.charts.draw.curves import lines, trajectories, two_axes
from frostline.charts.draw.parts import as_spec, tooltips, with_own_axes
from frostline.charts.draw.points import dots, scatter, side_by_side, strip
from frostline.charts.draw.squares import heatmap

__all__ = [
    "as_spec", "bars", "dots", "heatmap", "lines", "scatter", "side_by_side", "strip", "tooltips", "trajectories",
    "two_axes", "with_own_axes",
]  # fmt: skip
