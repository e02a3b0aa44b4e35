"""Flags that several commands have, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_GUESSED = "guessed from the data"

Text = Annotated[
    str | None,
    typer.Option("--text", help="Column with the text.", show_default=_GUESSED),
]
TextPair = Annotated[
    str | None,
    typer.Option("--text-pair", help="Column with the second text of a pair.", show_default=_GUESSED),
]
Label = Annotated[
    str | None,
    typer.Option("--label", help="Column with the label.", show_default=_GUESSED),
]
Choices = Annotated[
    str | None,
    typer.Option("--choices", help="Columns with the candidate answers, as in a,b,c.", show_default=False),
]
Kind = Annotated[
    Literal["classification", "regression", "multiple choice"] | None,
    typer.Option("--kind", help="Kind of task.", show_default=_GUESSED),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with a preset's official files, instead of the hub.", show_default=False),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        "--max-length", min=1, help="Cut texts at this many tokens.", show_default="the model's limit, 512 at most"
    ),
]
Epochs = Annotated[int, typer.Option("--epochs", help="Epochs of training.")]
Batch = Annotated[int, typer.Option("--batch", help="Batch size.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]
Cache = Annotated[bool, typer.Option("--cache/--no-cache", help="Cache the output of frozen layers on disk.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result in the output folder.")]
Device = Annotated[str, typer.Option("--device", help="Device: cpu, cuda or mps.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
TunedFolder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="Folder of a tuned model, of a run, or of any Hugging Face classifier."),
]
Base = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Encoder of an adapter, prefix or mean-pooled model, if it has moved since tuning.",
        show_default="as recorded in the model",
    ),
]
