"""`frostline evaluate`: how good a tuned model is on labelled rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from frostline.cli import options, screen
from frostline.errors import OptionError


class SplitChoice(StrEnum):
    """Which rows are judged."""

    train = "train"
    validation = "validation"
    test = "test"
    all = "all"


def command(
    folder: options.TunedFolder,
    file: options.DataArgument = None,
    data: options.Data = None,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    choices: options.Choices = None,
    kind: options.Kind = None,
    data_dir: options.DataDir = None,
    validation: options.Validation = None,
    test: options.Test = None,
    metric: options.Metric = None,
    split: Annotated[
        SplitChoice, typer.Option(help="Which rows: test rows as `frostline tune` has them, or all of a new file.")
    ] = SplitChoice.test,
    model: options.Base = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Judge a tuned model on labelled rows, by the task's metrics.

    With the data and seed that it was tuned with, the test rows are the ones that it has never seen. For a file of new
    rows say --split all.
    """
    source = options.one_source(file, data)
    if source is None:
        raise OptionError(f"{folder}: give the labelled rows to judge it on, such as the file that it was tuned on")
    with screen.starting():
        from frostline.kernels.device import use_device
        from frostline.prediction.loading import load_tuned
        from frostline.prediction.predict import evaluate, kind_to_ask
        from frostline.tasks import load_task
        from frostline.tasks.files import has_known_suffix, missing_file
    place = use_device(device, threads=threads)
    if has_known_suffix(source) and not Path(source).exists():
        raise missing_file(Path(source))  # before the model is loaded, which says how to read a file
    with screen.waiting("loading the model"):
        loaded = load_tuned(folder, encoder=model, device=place)
    with screen.waiting("reading the data"):
        task = load_task(
            source,
            text=text,
            text_pair=text_pair,
            label=label,
            choices=choices,
            kind=kind_to_ask(loaded, source) if kind is None else kind.value,
            data_dir=data_dir,
            validation=validation,
            test=test,
            metric=metric,
            seed=seed,
            splits=split.value != "all",
        )
    with screen.stages() as progress:
        found = evaluate(loaded, task, split=split.value, progress=progress)
    if as_json:
        screen.print_json(found.to_json())
        return
    console = screen.out()
    names = list(found.metrics)
    line = [found.split, f"{len(found.rows):,}", *(f"{value:.4f}" for value in found.metrics.values())]
    console.print(f"{found.model} on {found.task}\n", markup=False, soft_wrap=True)
    console.print(screen.table(["rows", "count", *names], [line], right=["count", *names]))
    for note in found.notes:
        console.print(f"note: {note}", style="dim", markup=False)
