"""The page of a study: its progress, figures, tables and failed trials."""

from __future__ import annotations

import os
import socket
from typing import Any

from frostline.charts import Results
from frostline.options import as_word
from frostline.records.study import StudyProgress
from frostline.report.citations import in_full
from frostline.report.page import Page, Section
from frostline.report.result_folder import Opened
from frostline.studies import STUDIES
from frostline.trials.tables import failures_table


def study_page(opened: Opened) -> Page:
    """Return the page of a study."""
    asked = opened.study
    name = asked.study
    known = STUDIES[name] if name in STUDIES.names() else None
    tables = {table.name: table for table in opened.tables}
    results = Results(tables=tables, families=asked.families, options=asked.options)
    figures = known.draw(results) if known and tables else []
    sections = [Section(name="Figures", figures=figures)] if figures else []
    if tables:
        sections.append(Section(name="Tables", tables=list(tables.values())))
    sections += _failures(opened)
    facts = [
        *([] if known is None else [known.paper]),
        f"{', '.join(asked.encoders)} on {', '.join(asked.tasks)}",
        f"{asked.seeds} seed{'' if asked.seeds == 1 else 's'}",
        f"{opened.finished} trial{'' if opened.finished == 1 else 's'}",
    ]
    return Page(
        kind=f"Study: {name}",
        title=known.question if known else name,
        subtitle="; ".join(facts),
        sections=sections,
        progress={} if opened.progress is None else _progress(opened.progress, failed=len(opened.failures)),
        command=opened.command,
        made=[*opened.made, *((f"option {name}", as_word(value)) for name, value in asked.options.items())],
        notes=[] if known is None else [" ".join(known.about.split("\n\n")[0].split()), *in_full(known.paper)],
    )


def _progress(progress: StudyProgress, *, failed: int) -> dict[str, Any]:
    """Return the progress of a study, as the page shows it."""
    done, total, left = progress.done, progress.total, progress.seconds_left
    if _has_stopped(progress):
        message = f"stopped after {done} of {total} trials; the same command continues"
    else:
        message = f"{done} of {total} trials done" + (f", {failed} failed" if failed else "")
        message += "" if not left else ", less than a minute left" if left < 60 else f", about {left / 60:.0f} min left"
    return {"done": done, "total": total, "message": message}


def _has_stopped(progress: StudyProgress) -> bool:
    """Return whether the process that runs the study is gone; unknown, so False, for another machine."""
    if progress.host != socket.gethostname() or progress.process is None:
        return False
    try:
        os.kill(progress.process, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)  # other errors are of a process that runs
    return False


def _failures(opened: Opened) -> list[Section]:
    if not opened.failures:
        return []
    table = failures_table(opened.failures).without("traceback")
    return [
        Section(name="Failed trials", tables=[table], text=["The same study with `retry_failed=True` runs them again."])
    ]
