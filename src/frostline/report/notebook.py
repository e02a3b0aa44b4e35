"""Compact views for notebooks of scores, plans, runs and studies; everything is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape

from frostline.charts.theme import ROLES
from frostline.records import LayerScores, Plan
from frostline.records.display import as_html
from frostline.records.plans import Plans
from frostline.records.run import RunRecord
from frostline.records.study import StudyOutcome
from frostline.records.table import Table, cell_in_words
from frostline.scoring.tables import scores_table
from frostline.search.tables import tests_table

_MORE = {"dropped": ";border:1px dashed;text-decoration:line-through", "head": ";width:70%"}
_ROLES = {name: f"background:{role.fill};color:{role.ink}{_MORE.get(name, '')}" for name, role in ROLES.items()}
_MOST_ROWS = 60
_LONGEST = 200  # characters of a cell


def layer_stack(plan: Plan, depth: int) -> list[dict[str, str]]:
    """Return the layers from the top down, each with its role: head, tuned, frozen or dropped."""
    stack = []
    for layer in range(depth, 0, -1):
        role = "dropped" if layer > plan.head else "tuned" if layer in plan.layers else "frozen"
        if layer == plan.head:
            stack.append({"name": "head", "role": "head"})
        stack.append({"name": f"layer {layer}", "role": role})
    stack.append({"name": "embeddings", "role": "tuned" if plan.embeddings else "frozen"})
    return stack


def stack_html(parts: Sequence[Mapping[str, str]]) -> str:
    """Return the drawing of the layers."""
    lines = [
        f'<div style="{_ROLES[part["role"]]};border-radius:3px;margin:0 0 2px;padding:0 8px;font-size:12px">'
        f"{escape(part['name'])}{'' if part['role'] == 'head' else ' · ' + part['role']}</div>"
        for part in parts
    ]
    return f'<div style="width:190px">{"".join(lines)}</div>'


@as_html.register
def plan_html(plan: Plan) -> str:
    """Return a plan with a drawing of its layers up to the head."""
    because = f"<div>{escape(plan.because)}</div>" if plan.because else ""
    return f"<div><b>{escape(plan.name)}</b>{because}{stack_html(layer_stack(plan, plan.head))}</div>"


@as_html.register
def scores_html(scores: LayerScores) -> str:
    """Return layer scores as a table, with the best layers marked."""
    table = scores_table(scores)
    title = f"{table.title}: {scores.examples:,} {scores.rows} texts"
    return tables_html(title, [replace(table, title=" ".join(table.notes))])


@as_html.register
def plans_html(plans: Plans) -> str:
    """Return plans with their costs as a table."""
    return tables_html(plans.table.title, [replace(plans.table, title=" ".join(plans.notes))])


@as_html.register
def run_html(run: RunRecord) -> str:
    """Return a drawing of the chosen plan, and the test results of the choice and the baselines."""
    name = f"{run.encoder.name} on {run.task.name}: {run.plan.name}"
    drawing = stack_html(layer_stack(run.plan, run.encoder.layers))
    return drawing + tables_html(name, [replace(tests_table(run), title=" ".join(run.decision.why))])


@as_html.register
def study_html(study: StudyOutcome) -> str:
    """Return the tables of a study."""
    failed = f", {len(study.failed)} failed" if study.failed else ""
    return tables_html(f"{study.question} {study.trials} trials{failed}", study.tables)


def tables_html(title: str, tables: Iterable[Table]) -> str:
    """Return tables one below the other; long ones are cut."""
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
