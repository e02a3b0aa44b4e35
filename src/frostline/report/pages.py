"""The page of any folder, as a record and as an HTML file."""

from __future__ import annotations

from pathlib import Path

from frostline.errors import OptionError
from frostline.files.atomic import write_text
from frostline.report.model_pages import run_page, tuned_page
from frostline.report.page import Page, render
from frostline.report.result_folder import Opened, open_folder
from frostline.report.score_pages import measurement_page
from frostline.report.study_pages import study_page

_MAKE = {"run": run_page, "measurement": measurement_page, "tuned": tuned_page, "study": study_page}


def write_report(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write the report of a folder as one HTML file, by default `report.html` in it, and say where.

    Args:
        folder: that measure, run, tune or study has written.
        path: of the file.

    Example:
        >>> _ = frostline.tune(task="reviews.csv", plan="6,6,6", output="tuned")
        >>> frostline.write_report("tuned").name
        'report.html'
    """
    opened = open_folder(folder)
    place = opened.folder / "report.html" if path is None else Path(path)
    if place.is_dir():
        raise OptionError(f"{place}: is a folder; give a file to write to")
    if place.suffix not in (".html", ".htm"):
        raise OptionError(f"{place}: must end in .html")
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, render(page_of(opened)))
    return place


def page_of(opened: Opened) -> Page:
    """What stands on the folder's page."""
    return _MAKE[opened.kind](opened)
