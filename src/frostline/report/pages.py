"""The page of any result folder, as a record and as an HTML file."""

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
    """Write the report of a result folder as one HTML file; return its path.

    Args:
        folder: folder written by measure, run, tune or study.
        path: path of the file; `report.html` in the folder by default.

    Example:
        >>> _ = frostline.tune(task="reviews.csv", plan="6,6,6", output="tuned")
        >>> frostline.write_report("tuned").name
        'report.html'
    """
    opened = open_folder(folder)
    file = opened.folder / "report.html" if path is None else Path(path)
    if file.is_dir():
        raise OptionError(f"{file}: is a folder; give a file to write to")
    if file.suffix not in (".html", ".htm"):
        raise OptionError(f"{file}: must end in .html")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, render(page_of(opened)))
    return file


def page_of(opened: Opened) -> Page:
    """Return the page of a result folder."""
    return _MAKE[opened.kind](opened)
