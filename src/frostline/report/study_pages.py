"""The page of a study: how far it is, its paper's figures, its tables, and the trials that failed."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from frostline.charts import Results
from frostline.options import as_word
from frostline.records.table import table_of
from frostline.report.citations import in_full
from frostline.report.opened import Opened
from frostline.report.page import Page, Section
from frostline.studies import STUDIES


def study_page(opened: Opened) -> Page:
    """What stands on the page of a study."""
    asked = opened.study
    name = str(asked["study"])
    known = STUDIES[name] if name in STUDIES.names() else None
    tables = {table.name: table for table in opened.tables}
    options = dict(asked.get("options", {}))
    results = Results(tables=tables, families=asked.get("families", {}), options=options)
    figures = known.draw(results) if known and tables else []
    sections = [Section(name="Figures", figures=figures)] if figures else []
    if tables:
        sections.append(Section(name="Tables", tables=list(tables.values())))
    sections += _failures(opened)
    seeds = asked["seeds"]
    said = [
        *([] if known is None else [f"paper{'s' if ' ' in known.paper else ''} {known.paper}"]),
        f"{', '.join(asked['encoders'])} on {', '.join(asked['tasks'])}",
        f"{seeds} seed{'' if seeds == 1 else 's'}",
        f"{opened.finished} trial{'' if opened.finished == 1 else 's'}",
    ]
    return Page(
        kind=f"Study: {name}",
        title=known.question if known else name,
        subtitle="; ".join(said),
        sections=sections,
        progress=_progress(opened),
        command=opened.command,
        made=[*opened.made, *((f"option {name}", as_word(value)) for name, value in options.items())],
        notes=[] if known is None else [" ".join(known.about.split("\n\n")[0].split()), *in_full(known.paper)],
    )


def _progress(opened: Opened) -> dict[str, Any]:
    if not opened.progress:  # it is there while a study runs
        return {}
    done, total = opened.progress["done"], opened.progress["total"]
    if _has_stopped(opened.progress):
        return {
            "done": done,
            "total": total,
            "said": f"stopped after {done} of {total} trials; the same command goes on",
        }
    failed = len(opened.failures)
    said = f"{done} of {total} trials done" + (f", {failed} failed" if failed else "")
    left = opened.progress.get("seconds_left")
    how_long = "" if not left else ", less than a minute left" if left < 60 else f", about {left / 60:.0f} min left"
    return {"done": done, "total": total, "said": said + how_long}


def _has_stopped(progress: Mapping[str, Any]) -> bool:
    """Whether the process that wrote it is gone; of another machine's nothing is known."""
    if progress.get("host") != socket.gethostname() or not isinstance(progress.get("process"), int):
        return False
    try:
        os.kill(progress["process"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _failures(opened: Opened) -> list[Section]:
    if not opened.failures:
        return []
    rows = [
        {"encoder": spec.encoder.name, "task": spec.task.name, "plan": str(spec.plan), "kind": spec.kind,
         "seed": spec.recipe.seed, "learning_rate": spec.recipe.learning_rate, "reason": reason}
        for spec, reason in opened.failures
    ]  # fmt: skip
    table = table_of("failed", "", rows)
    return [
        Section(
            name="Trials that failed", tables=[table], text=["The same study with `retry_failed=True` runs them again."]
        )
    ]
