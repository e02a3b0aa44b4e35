"""Figures for papers and slides: the charts of a page as PNG, SVG or PDF files."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from frostline.charts import Figure
from frostline.charts.theme import config
from frostline.errors import OptionError, did_you_mean
from frostline.files import atomic

FORMATS = ("png", "svg", "pdf")
SCHEMES = ("light", "dark")
_SCALE = 3.0  # 1,680 pixels for a chart of a column's width


def print_figures(
    figures: Sequence[Figure], folder: Path, *, form: str = "png", scheme: str = "light", titles: bool = True
) -> Iterator[Path]:
    """Write every figure as a file named after it; yield the paths.

    Args:
        figures: figures of a page.
        folder: folder for the files; created if missing.
        form: png, svg or pdf.
        scheme: light or dark.
        titles: whether to draw each figure's title above it; not for papers, which have captions.
    """
    check_printing(folder, form=form, scheme=scheme)
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        path = folder / f"{re.sub(r'[^A-Za-z0-9_-]+', '-', figure.name)}.{form}"
        atomic.write_bytes(path, drawn(figure, form=form, scheme=scheme, title=titles))
        yield path


def check_printing(folder: Path | None, *, form: str, scheme: str) -> None:
    """Refuse a wrong format, theme or folder, before anything is drawn."""
    for name, given, known in (("form", form, FORMATS), ("scheme", scheme, SCHEMES)):
        if given not in known:
            raise OptionError(f"`{name}={given!r}`{did_you_mean(given, known)}: must be one of {', '.join(known)}")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file; give a folder for the figures")


def drawn(figure: Figure, *, form: str = "png", scheme: str = "light", title: bool = True) -> bytes:
    """Return the figure as the content of a file."""
    import vl_convert

    spec: dict[str, Any] = {**figure.spec, "config": config(scheme), "padding": 8}
    if title:
        spec["title"] = {"text": textwrap.wrap(figure.title, 80)[:4] or [""]}
    # No base address is allowed: nothing is ever fetched.
    if form == "svg":
        return str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])).encode()
    if form == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec, allowed_base_urls=[]))
    return bytes(vl_convert.vegalite_to_png(spec, scale=_SCALE, allowed_base_urls=[]))
