"""The layer scores on a page, and the page of a measurement."""

from __future__ import annotations

from frostline.errors import OptionError
from frostline.records import LayerScore
from frostline.report.citations import with_author
from frostline.report.page import Page, Section
from frostline.report.result_folder import Opened
from frostline.report.score_figures import curve_figures, similarity_figures
from frostline.scoring.tables import scores_table


def score_sections(opened: Opened) -> list[Section]:
    """Return the sections of layer scores, if any were measured."""
    scores = opened.scores
    if scores is None or not scores.scores:
        return []
    alike = similarity_figures(scores)
    sections = [
        Section(
            name="Layer scores",
            text=["Measured before any training. The best layer by each score is drawn larger."],
            figures=curve_figures(scores),
            tables=[scores_table(scores)],
            legend=[(name, _explain(score)) for name, score in scores.scores.items()],
        )
    ]
    if alike:
        text = ["1 means that two layers are equal up to rotation and scale, 0 that they have nothing in common."]
        sections.append(Section(name="Similarity of layers", text=text, figures=alike))
    return sections


def _explain(score: LayerScore) -> str:
    source = f"; {with_author(score.paper)}" if score.paper else ""
    return f"{score.summary} ({score.better} is good{source})"


def measurement_page(opened: Opened) -> Page:
    """Return the page of a measurement."""
    scores = opened.scores
    if scores is None:
        raise OptionError(f"{opened.folder}: contains no scores.json; measure again")
    return Page(
        kind="Measurement",
        title=f"{scores.encoder.name} on {scores.task.name}",
        subtitle=f"{scores.examples:,} {scores.rows} texts, {scores.depth} layers",
        sections=score_sections(opened),
        command=opened.command,
        made=[*opened.made, *((name, f"{value:.1f} s") for name, value in scores.seconds.items())],
        notes=scores.notes,
    )
