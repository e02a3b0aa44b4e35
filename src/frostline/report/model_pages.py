"""The pages of runs and of tuned models."""

from __future__ import annotations

from collections.abc import Sequence

from frostline.plans.strategies import STRATEGIES
from frostline.records.prediction import PredictedRow
from frostline.records.run import RunRecord
from frostline.records.table import Cell, table_of
from frostline.report.error_figures import error_figures, hardest
from frostline.report.notebook import layer_stack
from frostline.report.page import Page, Section
from frostline.report.result_folder import Opened
from frostline.report.run_figures import run_figures, tuned_curves
from frostline.report.score_pages import score_sections
from frostline.search.tables import round_tables, tests_table
from frostline.tasks.metrics import METRICS


def run_page(opened: Opened) -> Page:
    """Return the page of a run."""
    run = opened.run
    figures = {figure.name: figure for figure in run_figures(opened)}
    sections = []
    if "tests" in figures:
        text = [f"The test rows were used once, after the plan was chosen on {run.judged_on}."]
        sections.append(Section(name="Quality", text=text, figures=[figures["tests"]], tables=[tests_table(run)]))
    sections += score_sections(opened)
    sections.append(
        Section(
            name="The race",
            figures=[figures[name] for name in ("race", "learning") if name in figures],
            tables=round_tables(run),
            text=[f"failed: {line}" for line in run.failed],
            legend=_proposers(run),
        )
    )
    sections += _error_sections(opened.predictions)
    return Page(
        kind="Run",
        title=f"{run.encoder.name} on {run.task.name}",
        subtitle="Which layers to tune, freeze and drop, and where to put the head",
        stack=layer_stack(run.plan, run.encoder.layers),
        answer=f"Chosen plan: {run.plan.name}",
        why=run.decision.why,
        given_up=run.given_up,
        sections=sections,
        command=opened.command,
        made=[*opened.made, *((name, f"{value:.1f} s") for name, value in run.seconds.items())],
        notes=run.notes,
    )


def _proposers(run: RunRecord) -> list[tuple[str, str]]:
    """Return the strategies that proposed plans of the race, and what each does."""
    named = {source.split(":")[0] for rung in run.race for entry in rung for source in entry.sources}
    return [(name, STRATEGIES[name].summary) for name in STRATEGIES.names() if name in named]


def _error_sections(predictions: Sequence[PredictedRow]) -> list[Section]:
    """Return the errors of the model, and the rows that it is most wrong about."""
    split, worst = hardest(predictions)
    figures = error_figures(predictions)
    if not (figures or worst):
        return []
    records = []
    for size, row in worst:
        record: dict[str, Cell] = {"row": row.row, "text": row.text}
        if row.text_pair is not None:
            record["second text"] = row.text_pair
        if row.choices is not None:
            record["choices"] = " | ".join(row.choices)
        records.append({**record, "label": row.label, "prediction": row.prediction, "error": round(size, 3)})
    note = "error: the probability of the wrong prediction, or the distance from the true value"
    tables = (
        [table_of("hardest", f"The {split} rows that the model is most wrong about", records, notes=[note])]
        if records
        else []
    )
    return [Section(name="Errors", figures=figures, tables=tables)]


def tuned_page(opened: Opened) -> Page:
    """Return the page of a model that was tuned by a given plan."""
    result = opened.result
    plan, depth = result.plan, result.encoder.layers
    records = [
        {"split": split, **{name: METRICS[name].shown(value) for name, value in metrics.items()}}
        for split, metrics in result.metrics.items()
    ]
    unit = "In points" if all(METRICS[name].points == 100 for name in result.task.metrics) else ""
    quality = Section(name="Quality", tables=[table_of("quality", unit, records)], figures=tuned_curves(opened))
    return Page(
        kind="Tuned model",
        title=f"{result.encoder.name} on {result.task.name}",
        stack=layer_stack(plan, depth),
        answer=f"Plan: {plan.name}",
        why=[f"{plan.in_words(depth)}.", *([f"Why: {plan.because}."] if plan.because else [])],
        given_up=[f"{result.parameters.trainable:,} of {result.parameters.total:,} parameters were trained"],
        sections=[quality, *_error_sections(opened.predictions)],
        command=opened.command,
        made=opened.made,
    )
