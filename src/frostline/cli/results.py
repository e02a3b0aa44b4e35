"""`frostline results`: the tables and trials of a study or a run, printed or exported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frostline.cli._shared import options, screen
from frostline.records.table import Table


def command(
    folder: Annotated[Path, typer.Argument(help="Folder of a study or a run.")],
    trials: Annotated[bool, typer.Option("--trials", help="Print every trial instead of the tables.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Print the failed trials with their tracebacks.")] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write the trials to a file: .csv, .json or .parquet.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the tables or the trials of a study or a run."""
    from frostline.studies._engine.results import (
        describe_unfinished,
        read_failures,
        read_tables,
        read_trials,
        write_trials,
    )

    if export is not None:
        count = write_trials(folder, export)
        if as_json:
            screen.print_json({"folder": str(folder), "trials": count, "file": str(export)})
        else:
            screen.say(f"{count} trials written to {export}")
        return
    if failed:
        _show_failed(read_failures(folder), folder, as_json=as_json)
        return
    tables = [] if trials else read_tables(folder)
    if not tables:
        tables = [read_trials(folder)]
    unfinished = describe_unfinished(folder)
    if as_json:
        contents = [table.to_json() for table in tables]
        screen.print_json({"folder": str(folder), "finished": unfinished is None, "tables": contents})
        return
    if unfinished:
        screen.say(unfinished)
    for table in tables:
        screen.show_table(table)


def _show_failed(table: Table, folder: Path, *, as_json: bool) -> None:
    if as_json:
        screen.print_json({"folder": str(folder), "failed": table.records()})
        return
    screen.say(table.title, style="bold")
    for trial in table.records():
        what = f"{trial['encoder']} on {trial['task']}, {trial['kind']} {trial['plan']}"
        rate = "" if trial["learning rate"] is None else f", learning rate {trial['learning rate']:g}"
        cause = f"{trial['cause']}: " if trial["cause"] else ""
        title = f"\n{trial['id']}: {what}{rate}, seed {trial['seed']}"
        screen.say(title, f"{cause}{trial['reason']}", wrap=False)
        if trial["traceback"]:
            screen.say(str(trial["traceback"]).rstrip(), style="dim", wrap=False)
