"""The page of a study: how far it is, its paper's figures, its tables, and the trials that failed."""

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
    """What stands on the page of a study."""
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
    said = [
        *([] if known is None else [known.paper]),
        f"{', '.join(asked.encoders)} on {', '.join(asked.tasks)}",
        f"{asked.seeds} seed{'' if asked.seeds == 1 else 's'}",
        f"{opened.finished} trial{'' if opened.finished == 1 else 's'}",
    ]
    return Page(
        kind=f"Study: {name}",
        title=known.question if known else name,
        subtitle="; ".join(said),
        sections=sections,
        progress={} if opened.progress is None else _progress(opened.progress, failed=len(opened.failures)),
        command=opened.command,
        made=[*opened.made, *((f"option {name}", as_word(value)) for name, value in asked.options.items())],
        notes=[] if known is None else [" ".join(known.about.split("\n\n")[0].split()), *in_full(known.paper)],
    )


def _progress(progress: StudyProgress, *, failed: int) -> dict[str, Any]:
    """How far a study is, as the page says it."""
    done, total = progress.done, progress.total
    if _has_stopped(progress):
        said = f"stopped after {done} of {total} trials; the same command goes on"
        return {"done": done, "total": total, "said": said}
    said = f"{done} of {total} trials done" + (f", {failed} failed" if failed else "")
    left = progress.seconds_left
    how_long = "" if not left else ", less than a minute left" if left < 60 else f", about {left / 60:.0f} min left"
    return {"done": done, "total": total, "said": said + how_long}


def _has_stopped(progress: StudyProgress) -> bool:
    """Whether the process that wrote it is gone; of another machine's nothing is known."""
    if progress.host != socket.gethostname() or progress.process is None:
        return False
    try:
        os.kill(progress.process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _failures(opened: Opened) -> list[Section]:
    if not opened.failures:
        return []
    table = failures_table(opened.failures).without("traceback")
    return [
        Section(
            name="Trials that failed", tables=[table], text=["The same study with `retry_failed=True` runs them again."]
        )
    ]
