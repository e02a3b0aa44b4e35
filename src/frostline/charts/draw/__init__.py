"""The few kinds of chart that all figures are made of, as Vega-Lite specifications made with Altair.

Every mark says its values when it is pointed at. What is uncertain has its interval drawn. Groups differ in shape as
well as in colour.
"""

from frostline.charts.draw.columns import bars as bars
from frostline.charts.draw.curves import lines as lines
from frostline.charts.draw.curves import trajectories as trajectories
from frostline.charts.draw.curves import two_axes as two_axes
from frostline.charts.draw.parts import as_spec as as_spec
from frostline.charts.draw.parts import tooltips as tooltips
from frostline.charts.draw.parts import with_own_axes as with_own_axes
from frostline.charts.draw.points import dots as dots
from frostline.charts.draw.points import scatter as scatter
from frostline.charts.draw.points import side_by_side as side_by_side
from frostline.charts.draw.points import strip as strip
from frostline.charts.draw.squares import heatmap as heatmap
