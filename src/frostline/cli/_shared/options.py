"""Flags that several commands have, each declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class KindChoice(StrEnum):
    """What the labels are."""

    classification = "classification"
    regression = "regression"
    multiple_choice = "multiple choice"


Text = Annotated[
    str | None,
    typer.Option("--text", help="Column with the text.", show_default="guessed and said"),
]
TextPair = Annotated[
    str | None,
    typer.Option("--text-pair", help="Column with the second text of a pair.", show_default="guessed and said"),
]
Label = Annotated[
    str | None,
    typer.Option("--label", help="Column with the label.", show_default="guessed and said"),
]
Choices = Annotated[
    str | None,
    typer.Option("--choices", help="Columns with the choices of a question, as in a,b,c.", show_default=False),
]
Kind = Annotated[
    KindChoice | None,
    typer.Option("--kind", help="What the labels are.", show_default="guessed and said"),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with a preset's official files, in place of the hub.", show_default=False),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        "--max-length", min=1, help="Cut texts at this many tokens.", show_default="the model's limit, 512 at most"
    ),
]
Epochs = Annotated[int, typer.Option("--epochs", help="Passes over the training rows.")]
Batch = Annotated[int, typer.Option("--batch", help="Rows per step.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything drawn at random.")]
Cache = Annotated[bool, typer.Option("--cache/--no-cache", help="Keep frozen states on disk.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result in that folder.")]
Device = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, mps.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
TunedFolder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="A tuned model: a run's folder, its model folder, or any stock classifier."),
]
Base = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The encoder that an adapter, prefix or mean-headed model was tuned from, if it has moved.",
        show_default="where it was",
    ),
]
