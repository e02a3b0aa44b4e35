"""The drawing of the layers as a figure for papers and slides; the page draws it in HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frostline.charts import Figure
from frostline.charts.draw import as_spec
from frostline.charts.theme import ROLES

_LINE, _WIDTH = 26, 220


def stack_figure(parts: Sequence[Mapping[str, str]], title: str) -> Figure:
    """Return boxes from the head down to the embeddings, each with its role in colour and in words.

    Args:
        parts: names and roles from the top down, as `notebook.layer_stack` gives them.
        title: title of the figure.
    """
    import altair as alt

    rows = [
        {"place": place, "part": part["name"], "role": part["role"], "label": _label(part)}
        for place, part in enumerate(parts)
    ]
    roles = list(dict.fromkeys(part["role"] for part in parts))
    fills = alt.Scale(domain=roles, range=[ROLES[role].fill for role in roles])
    inks = alt.Scale(domain=roles, range=[ROLES[role].ink for role in roles])
    edges = alt.Scale(domain=roles, range=[ROLES[role].edge for role in roles])
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("place:O", axis=None, scale=alt.Scale(paddingInner=0.12)))
    boxes = base.mark_bar(cornerRadius=3).encode(
        x=alt.value(0), x2=alt.value(_WIDTH), color=alt.Color("role:N", scale=fills, legend=None),
        stroke=alt.Stroke("role:N", scale=edges, legend=None),
        strokeDash=alt.condition("datum.role === 'dropped'", alt.value([4, 3]), alt.value([1, 0])),
    )  # fmt: skip
    words = base.mark_text(align="left", fontSize=12).encode(
        x=alt.value(10), text="label:N", color=alt.Color("role:N", scale=inks, legend=None)
    )
    chart = alt.layer(boxes, words).resolve_scale(color="independent")
    return Figure(
        name="stack",
        title=title,
        alt="The layers of the encoder from the top down: " + ", ".join(map(_label, parts)),
        spec=as_spec(chart.properties(width=_WIDTH, height=_LINE * len(rows))),
        rows=tuple(rows),
    )


def _label(part: Mapping[str, str]) -> str:
    return part["name"] if part["name"] == part["role"] else f"{part['name']} · {part['role']}"
