"""`frostline evaluate`: the metrics of a tuned model on labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostline.cli._shared import groups, options, screen
from frostline.errors import OptionError


def command(
    *,
    folder: options.TunedFolder,
    data: groups.DataOptions,
    split: Annotated[
        Literal["train", "validation", "test", "all"],
        typer.Option(help="Rows to evaluate on: those of a split as in `frostline tune`, or all."),
    ] = "test",
    model: options.Base = None,
    seed: options.Seed = 0,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Evaluate a tuned model on labelled rows.

    With the data and the seed of tuning, the test rows are those that the model has never seen. For a file of new rows,
    pass --split all.
    """
    if data.source is None:
        raise OptionError(f"{folder}: give the labelled rows to evaluate it on, such as the file that it was tuned on")
    with screen.starting():
        from frostline.api._predict import evaluate, kind_to_ask
        from frostline.prediction.loading import load_tuned
        from frostline.tasks.readers.files import has_known_suffix, missing_file
    device = machine.use()
    if has_known_suffix(data.source) and not Path(data.source).exists():
        raise missing_file(Path(data.source))  # before the model is loaded, which decides how to read a file
    with screen.waiting("loading the model"):
        loaded = load_tuned(folder, encoder=model, device=device)
    task = data.load_task(seed=seed, kind=kind_to_ask(loaded, data.source), splits=split != "all")
    with screen.stages() as progress:
        evaluated = evaluate(loaded, task, split=split, progress=progress)
    record = evaluated.record
    if as_json:
        screen.print_json(record.to_json())
        return
    screen.say(f"{record.model} on {record.task}\n", wrap=False)
    screen.print_metrics({record.split: record.metrics}, {record.split: record.rows})
    screen.say_notes(record.notes)
