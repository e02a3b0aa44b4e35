"""`frostline plan`: the plans that are worth trying, with their reasons and costs, before any is tried."""

from __future__ import annotations

from typing import Annotated

import typer

from frostline.cli import budgets, options, screen


def command(
    file: options.DataArgument = None,
    data: options.Data = None,
    model: options.Model = None,
    revision: options.Revision = None,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    choices: options.Choices = None,
    kind: options.Kind = None,
    data_dir: options.DataDir = None,
    validation: options.Validation = None,
    test: options.Test = None,
    metric: options.Metric = None,
    minutes: budgets.Minutes = None,
    max_trainable: budgets.MaxTrainable = None,
    max_latency: budgets.MaxLatency = None,
    max_memory: budgets.MaxMemory = None,
    max_layers: budgets.MaxLayers = None,
    smallest: budgets.Smallest = False,
    fastest: budgets.Fastest = False,
    best: budgets.Best = False,
    allow_frostline_only: budgets.AllowFrostlineOnly = False,
    epochs: Annotated[int, typer.Option(help="Passes over the training rows.")] = 3,
    batch: Annotated[int, typer.Option(help="Rows per step.")] = 32,
    max_length: options.MaxLength = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Propose plans for a task, with what each costs on this machine, cheapest first.

    Layers are measured and a few steps are timed; nothing is tuned.
    """
    source = options.one_source(file, data)
    budget = budgets.read(
        minutes=minutes,
        max_trainable=max_trainable,
        max_latency=max_latency,
        max_memory=max_memory,
        max_layers=max_layers,
        margin=None,
        smallest=smallest,
        fastest=fastest,
        best=best,
    )
    with screen.starting():
        from frostline.api._arguments import to_task_or_sample
        from frostline.api._plan import plan
        from frostline.encoders.loading import load_encoder
        from frostline.kernels.device import use_device
        from frostline.records import Recipe
    recipe = Recipe(epochs=epochs, batch=batch, max_length=max_length, threads=threads, seed=seed)
    place = use_device(device, threads=threads)
    with screen.waiting("reading the data"):
        task = to_task_or_sample(
            source,
            text=text,
            text_pair=text_pair,
            label=label,
            choices=choices,
            kind=None if kind is None else kind.value,
            data_dir=data_dir,
            validation=validation,
            test=test,
            metric=metric,
            seed=seed,
        )
    with screen.waiting("loading the encoder"):
        encoder = load_encoder(model, revision=revision, device=place)
    with screen.stages() as progress:
        found = plan(
            encoder, task, budget=budget, recipe=recipe, allow_frostline_only=allow_frostline_only, progress=progress
        )
    if as_json:
        screen.print_json(found.to_json())
        return
    console = screen.out()
    table = found.table
    console.print(f"{table.title}, {epochs} epochs\n", style="bold", markup=False)
    rows = [[str(cell) for cell in row] for row in table.rows]
    console.print(screen.table(table.columns, rows, right=table.columns[1:-1]))
    console.print(
        "\n(bottom, top, head): those layers train and the head reads there; what lies above is dropped. Latency is "
        "relative to the whole encoder; seconds are for tuning on this machine, with the range that is likely.",
        markup=False,
    )
    for note in found.notes:
        console.print(f"note: {note}", style="dim", markup=False)
