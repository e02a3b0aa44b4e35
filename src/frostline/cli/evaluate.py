"""`frostline evaluate`: how good a tuned model is on labelled rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli._shared import groups, options, screen
from frostline.errors import OptionError

if TYPE_CHECKING:
    from frostline.records.prediction import Evaluation


class SplitChoice(StrEnum):
    """Which rows are judged."""

    train = "train"
    validation = "validation"
    test = "test"
    all = "all"


def command(
    *,
    folder: options.TunedFolder,
    data: groups.DataOptions,
    split: Annotated[
        SplitChoice, typer.Option(help="Which rows: test rows as `frostline tune` has them, or all of a new file.")
    ] = SplitChoice.test,
    model: options.Base = None,
    seed: options.Seed = 0,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Judge a tuned model on labelled rows, by the task's metrics.

    With the data and seed that it was tuned with, the test rows are the ones that it has never seen. For a file of new
    rows say --split all.
    """
    if data.source is None:
        raise OptionError(f"{folder}: give the labelled rows to judge it on, such as the file that it was tuned on")
    with screen.starting():
        from frostline.api._predict import evaluate, kind_to_ask
        from frostline.prediction.loading import load_tuned
        from frostline.tasks.readers.files import has_known_suffix, missing_file
    device = machine.use()
    if has_known_suffix(data.source) and not Path(data.source).exists():
        raise missing_file(Path(data.source))  # before the model is loaded, which decides how to read a file
    with screen.waiting("loading the model"):
        loaded = load_tuned(folder, encoder=model, device=device)
    task = data.load_task(seed=seed, kind=kind_to_ask(loaded, data.source), splits=split.value != "all")
    with screen.stages() as progress:
        found = evaluate(loaded, task, split=split.value, progress=progress)
    if as_json:
        screen.print_json(found.to_json())
    else:
        _show(found.record)


def _show(found: Evaluation) -> None:
    console = screen.out()
    names = list(found.metrics)
    line = [found.split, f"{found.rows:,}", *(f"{value:.4f}" for value in found.metrics.values())]
    console.print(f"{found.model} on {found.task}\n", markup=False, soft_wrap=True)
    console.print(screen.table(["rows", "count", *names], [line], right=["count", *names]))
    for note in found.notes:
        console.print(f"note: {note}", style="dim", markup=False)
