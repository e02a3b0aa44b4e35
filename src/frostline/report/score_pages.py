"""The layer scores on a page, and the page of a measurement, which has nothing else."""

from __future__ import annotations

from frostline.errors import OptionError
from frostline.records import LayerScore
from frostline.report.page import Page, Section
from frostline.report.result_folder import Opened
from frostline.report.score_figures import curve_figures, similarity_figures
from frostline.scoring.tables import scores_table


def score_sections(opened: Opened) -> list[Section]:
    """The layer scores, if any were measured."""
    scores = opened.scores
    if scores is None or not scores.scores:
        return []
    alike = similarity_figures(scores)
    legend = [
        (name, f"{score.summary} ({score.better} is good{_from(score)})") for name, score in scores.scores.items()
    ]
    found = [
        Section(
            name="Layer scores",
            text=["Measured before any training. The best layer of each score is drawn large."],
            figures=curve_figures(scores),
            tables=[scores_table(scores)],
            legend=legend,
        )
    ]
    if alike:
        text = ["1 where two layers say the same of the texts, up to rotation and scale; 0 where they share nothing."]
        found.append(Section(name="Which layers are alike", text=text, figures=alike))
    return found


def _from(score: LayerScore) -> str:
    """Which paper the score is from, or what else."""
    if not score.paper:
        return ""
    return f"; paper {score.paper}" if score.paper[0].isdigit() else f"; {score.paper}"


def measurement_page(opened: Opened) -> Page:
    """What stands on the page of a measurement."""
    scores = opened.scores
    if scores is None:
        raise OptionError(f"{opened.folder}: holds no scores.json; measure again")
    return Page(
        kind="Measurement",
        title=f"{scores.encoder.name} on {scores.task.name}",
        subtitle=f"{scores.examples:,} {scores.rows} texts, {scores.depth} layers",
        sections=score_sections(opened),
        command=opened.command,
        made=[*opened.made, *((name, f"{value:.1f} s") for name, value in scores.seconds.items())],
        notes=scores.notes,
    )
