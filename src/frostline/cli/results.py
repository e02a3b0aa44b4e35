"""`frostline results`: what a study's or a run's folder has recorded, printed or exported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frostline.cli import options, screen


def command(
    folder: Annotated[Path, typer.Argument(help="Folder of a study or a run.")],
    trials: Annotated[bool, typer.Option("--trials", help="Every trial, in place of the tables.")] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write the trials to a file: .csv, .json or .parquet.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the tables of a study, or every trial that a folder has recorded."""
    from frostline.studies._engine.results import describe_unfinished, read_tables, read_trials, write_trials

    if export is not None:
        count = write_trials(folder, export)
        if as_json:
            screen.print_json({"folder": str(folder), "trials": count, "file": str(export)})
        else:
            screen.out().print(f"{count} trials written to {export}", markup=False)
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
