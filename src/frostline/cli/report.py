"""`frostline report`: an HTML page of any result, figures for papers, or a live page of a running study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from frostline.cli._shared import options, screen
from frostline.errors import OptionError
from frostline.progress import Progress, Step


@dataclass(frozen=True, kw_only=True)
class FigureFlags:
    """Whether and how to write charts as files."""

    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Also write the charts as files to this folder.")
    ] = None
    form: Annotated[
        str | None, typer.Option("--format", metavar="png|svg|pdf", help="Format of chart files.", show_default="png")
    ] = None
    theme: Annotated[
        str | None, typer.Option("--theme", metavar="light|dark", help="Colours of chart files.", show_default="light")
    ] = None
    titles: Annotated[bool, typer.Option("--titles/--no-titles", help="Draw titles in chart files.")] = True

    def __post_init__(self) -> None:
        given = {"--format": self.form is not None, "--theme": self.theme is not None, "--no-titles": not self.titles}
        for flag, is_given in given.items():
            if is_given and self.figures is None:
                raise OptionError(f"{flag}: applies to chart files; add --figures DIR")

    def write(self, folder: Path, progress: Progress) -> list[Path]:
        """Write the charts of a result, if asked for; return the files."""
        from frostline.report.pages import page_of
        from frostline.report.printed import print_figures
        from frostline.report.result_folder import open_folder

        if self.figures is None:
            return []
        drawn, written = page_of(open_folder(folder)).printable, []
        look = {"form": self.form or "png", "scheme": self.theme or "light"}
        for number, path in enumerate(print_figures(drawn, self.figures, **look, titles=self.titles), 1):
            written.append(path)
            progress(Step(stage="figures", done=number, total=len(drawn)))
        return written


def command(
    *,
    folder: Annotated[Path, typer.Argument(help="Folder written by run, measure, tune or study.")],
    output: Annotated[
        Path | None, typer.Option("--output", help="HTML file to write.", show_default="FOLDER/report.html")
    ] = None,
    charts: FigureFlags,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Serve a live page of a running study on this machine.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(help="Port, with --watch.", min=0, max=65535, show_default="any free port")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a result as one HTML page that opens offline, with charts and tables."""
    if port is not None and not watch:
        raise OptionError("--port: applies to the live page; add --watch")
    with screen.starting():
        from frostline.report.pages import write_report
        from frostline.report.printed import check_printing
    if watch:
        if charts.figures is not None or output is not None or as_json:
            raise OptionError("--watch: serves the page and writes nothing; remove --output, --figures and --json")
        _follow(folder, port or 0, show=show)
        return
    check_printing(charts.figures, form=charts.form or "png", scheme=charts.theme or "light")
    with screen.stages() as progress:
        progress(Step(stage="report"))
        path = write_report(folder, output)
        printed = charts.write(folder, progress)
    if as_json:
        screen.print_json({"report": str(path), "figures": [str(file) for file in printed]})
    else:
        figures = [f"figures:  {len(printed)} in {charts.figures}"] if printed else []
        screen.say(f"report:   {path}", *figures)
    if show:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())


def _follow(folder: Path, port: int, *, show: bool) -> None:
    import threading
    import webbrowser

    from frostline.report.live import serving

    try:
        with serving(folder, port=port) as address:
            screen.say(f"{address} shows {folder} live; Ctrl-C stops it")
            if show:
                webbrowser.open(address)
            threading.Event().wait()
    except KeyboardInterrupt:
        screen.say("stopped")
