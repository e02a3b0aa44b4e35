"""Compact views for notebooks: what `_repr_html_` of scores, plans, runs and studies gives. Everything is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from frostline.charts.theme import ROLES
from frostline.records.table import cell_in_words

if TYPE_CHECKING:
    from frostline.records import LayerScores, Plan
    from frostline.records.table import Table

_MORE = {"dropped": ";border:1px dashed;text-decoration:line-through", "head": ";width:70%"}
_ROLES = {name: f"background:{role.fill};color:{role.ink}{_MORE.get(name, '')}" for name, role in ROLES.items()}
_MOST_ROWS = 60
_LONGEST = 200  # characters of a cell


def layer_stack(plan: Plan, depth: int) -> list[dict[str, str]]:
    """The layers from the top down, each with its role: head, tuned, frozen or dropped."""
    stack = []
    for layer in range(depth, 0, -1):
        role = "dropped" if layer > plan.head else "tuned" if layer in plan.layers else "frozen"
        if layer == plan.head:
            stack.append({"name": "head", "role": "head"})
        stack.append({"name": f"layer {layer}", "role": role})
    stack.append({"name": "embeddings", "role": "tuned" if plan.embeddings else "frozen"})
    return stack


def stack_html(parts: Sequence[Mapping[str, str]]) -> str:
    """The drawing of the layers."""
    lines = [
        f'<div style="{_ROLES[part["role"]]};border-radius:3px;margin:0 0 2px;padding:0 8px;font-size:12px">'
        f"{escape(part['name'])}{'' if part['role'] == 'head' else ' · ' + part['role']}</div>"
        for part in parts
    ]
    return f'<div style="width:190px">{"".join(lines)}</div>'


def plan_html(plan: Plan) -> str:
    """A plan with its drawing, as far up as the head."""
    because = f"<div>{escape(plan.because)}</div>" if plan.because else ""
    name = str(plan) if plan.method == "full" else f"{plan}, {plan.method}"
    return f"<div><b>{escape(name)}</b>{because}{stack_html(layer_stack(plan, plan.head))}</div>"


def scores_html(scores: LayerScores) -> str:
    """Layer scores as a table, the best layer of each in bold, those that cannot be told apart from it with a ~."""
    columns = ["layer", *(f"{name} ({score.better})" for name, score in scores.scores.items())]
    rows = []
    for layer in range(scores.depth + 1):
        row = ["embeddings" if layer == 0 else str(layer)]
        for score in scores.scores.values():
            value = score.values[layer]
            shown = "" if value is None else f"{value:.3g}"
            bold = layer == score.best
            row.append(f"<b>{shown}</b>" if bold else f"{shown} ~" if layer in score.tied and shown else shown)
        rows.append(row)
    title = f"{scores.encoder['name']} on {scores.task['name']}: {scores.examples:,} {scores.rows} texts"
    return f"<div><b>{_short(title)}</b>{_table(map(escape, columns), rows)}</div>"


def tables_html(title: str, tables: Iterable[Table]) -> str:
    """Tables one below the other, long ones cut."""
    parts = [f"<b>{_short(title)}</b>"]
    for table in tables:
        rows = [[_short(cell_in_words(cell)) for cell in row] for row in table.rows[:_MOST_ROWS]]
        more = len(table.rows) - len(rows)
        parts.append(f"<p>{_short(table.title)}</p>{_table(map(escape, table.columns), rows)}")
        parts.append(f"<p>and {more} more rows</p>" if more > 0 else "")
    return f"<div>{''.join(parts)}</div>"


def _table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _short(text: str) -> str:
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
