"""`frostline results`: what a study's or a run's folder has recorded, printed or exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli._shared import options, screen

if TYPE_CHECKING:
    from frostline.records.table import Table


def command(
    folder: Annotated[Path, typer.Argument(help="Folder of a study or a run.")],
    trials: Annotated[bool, typer.Option("--trials", help="Every trial, in place of the tables.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="The trials that failed, with cause, reason and traceback.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write the trials to a file: .csv, .json or .parquet.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the tables of a study, or every trial that a folder has recorded."""
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
            screen.out().print(f"{count} trials written to {export}", markup=False)
        return
    if failed:
        _show_failed(read_failures(folder), folder, as_json=as_json)
        return
    tables = [] if trials else read_tables(folder)
    if not tables:
        tables = [read_trials(folder)]
    to_come = describe_unfinished(folder)
    if as_json:
        made = [table.to_json() for table in tables]
        screen.print_json({"folder": str(folder), "finished": to_come is None, "tables": made})
        return
    if to_come:
        screen.say(to_come)
    for table in tables:
        screen.show_table(table)


def _show_failed(table: Table, folder: Path, *, as_json: bool) -> None:
    if as_json:
        screen.print_json({"folder": str(folder), "failed": table.records()})
        return
    console = screen.out()
    console.print(table.title, style="bold", markup=False)
    for trial in table.records():
        what = f"{trial['encoder']} on {trial['task']}, {trial['kind']} {trial['plan']}"
        rate = "" if trial["learning rate"] is None else f", learning rate {trial['learning rate']:g}"
        console.print(f"\n{trial['id']}: {what}{rate}, seed {trial['seed']}", markup=False, soft_wrap=True)
        cause = f"{trial['cause']}: " if trial["cause"] else ""
        console.print(f"{cause}{trial['reason']}", markup=False, soft_wrap=True)
        if trial["traceback"]:
            console.print(str(trial["traceback"]).rstrip(), style="dim", markup=False, soft_wrap=True)
