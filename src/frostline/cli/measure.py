"""`frostline measure`: a table of layers with the best one marked."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli import options, screen
from frostline.errors import OptionError

if TYPE_CHECKING:
    from frostline.records import LayerScores


class PoolingChoice(StrEnum):
    """How a text's tokens become one vector."""

    mean = "mean"
    first = "first"
    all = "all"


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
    pooling: Annotated[
        PoolingChoice,
        typer.Option(help="One vector per text: the mean of all tokens but the first, the first one, or all of them."),
    ] = PoolingChoice.mean,
    examples: Annotated[int, typer.Option(min=2, help="Training rows to use at most, drawn in proportion.")] = 5000,
    max_length: options.MaxLength = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Score every layer of an encoder for a task, before any training.

    Prints, per layer, how specialised it already is in telling the classes apart (variability: low is specialised), and
    marks the best one. With no arguments it measures a small encoder on movie-review snippets.
    """
    if file is not None and data is not None:
        raise OptionError(f"data given twice: {file!r} and --data {data!r}; give it once")
    with screen.waiting("starting"):
        from frostline.checkpoint import load_encoder
        from frostline.device import use_device
        from frostline.measurement import measure
        from frostline.tasks import load_task
    place = use_device(device, threads=threads)
    with screen.waiting("reading the data"):
        task = load_task(
            file or data or "movies",
            text=text,
            text_pair=text_pair,
            label=label,
            choices=choices,
            kind=None if kind is None else kind.value,
            data_dir=data_dir,
            validation=validation,
            test=test,
            seed=seed,
        )
    with screen.waiting("loading the encoder"):
        encoder = load_encoder(model, revision=revision, device=place)
    with screen.progress("measuring") as tell:
        found = measure(
            encoder, task, pooling=pooling.value, examples=examples, max_length=max_length, seed=seed, progress=tell
        )
    if as_json:
        screen.print_json(found.to_json())
    else:
        _show(found)


def _show(found: LayerScores) -> None:
    console = screen.out()
    score = found["variability"]
    console.print(f"[bold]{found.encoder}[/] ({found.family}, {found.depth} layers) on [bold]{found.task}[/]")
    console.print(f"{found.examples:,} training texts, classes {', '.join(found.labels)}; {_POOLED[found.pooling]}\n")
    largest = max((value for value in score.values if value is not None), default=1.0)
    rows = []
    for layer, value in enumerate(score.values):
        bar = "" if value is None else "█" * max(1, round(30 * value / largest))
        mark = " ◀ best" if layer == score.best else ""
        name = "embeddings" if layer == 0 else str(layer)
        rows.append([name, "undefined" if value is None else f"{value:.4g}", f"{bar}{mark}"])
    console.print(screen.table(["layer", "variability", "low is specialised"], rows, right=["layer", "variability"]))
    console.print()
    console.print(_finding(found))
    for note in found.notes:
        console.print(f"note: {note}", style="dim")


_POOLED = {
    "mean": "each text is the mean of its tokens but the first",
    "first": "each text is its first token",
    "all": "each text is the mean of all its tokens",
}


def _finding(found: LayerScores) -> str:
    best = found["variability"].best
    if best is None:
        return "No layer tells the classes apart: variability is undefined everywhere."
    if best == found.depth:
        return f"Layer {best}, the last, is the most specialised: variability gives no reason to drop layers."
    return f"Layer {best} of {found.depth} is the most specialised: a good place to tune down from, or to put the head."
