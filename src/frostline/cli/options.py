"""Flags that mean the same in every command."""

# ruff: noqa: UP045 (typer reads annotations at run time and wants Optional spelled out)

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from frostline.errors import OptionError

if TYPE_CHECKING:
    from frostline.records.compute import Compute

Data = Annotated[
    Optional[str],
    typer.Option(
        "--data",
        help="Labelled file (CSV, TSV, JSON lines, JSON, Parquet; plain or .gz), preset such as glue/sst2, or hub id.",
        show_default="the embedded movie-review snippets",
    ),
]
DataArgument = Annotated[
    Optional[str],
    typer.Argument(metavar="DATA", help="The same as --data.", show_default=False),
]
Model = Annotated[
    Optional[str],
    typer.Option("--model", help="Folder or hub id of the encoder.", show_default="the embedded all-MiniLM-L6-v2"),
]
Revision = Annotated[
    Optional[str],
    typer.Option("--revision", help="Branch, tag or commit of a hub model.", show_default=False),
]
Text = Annotated[
    Optional[str],
    typer.Option("--text", help="Column with the text.", show_default="guessed and said"),
]
TextPair = Annotated[
    Optional[str],
    typer.Option("--text-pair", help="Column with the second text of a pair.", show_default="guessed and said"),
]
Label = Annotated[
    Optional[str],
    typer.Option("--label", help="Column with the label.", show_default="guessed and said"),
]


class KindChoice(StrEnum):
    """What the labels are."""

    classification = "classification"
    regression = "regression"
    multiple_choice = "multiple choice"


Choices = Annotated[
    Optional[str],
    typer.Option("--choices", help="Columns with the choices of a question, as in a,b,c.", show_default=False),
]
Kind = Annotated[
    Optional[KindChoice],
    typer.Option("--kind", help="What the labels are.", show_default="guessed and said"),
]
DataDir = Annotated[
    Optional[Path],
    typer.Option("--data-dir", help="Folder with a preset's official files, in place of the hub.", show_default=False),
]
Validation = Annotated[
    Optional[str],
    typer.Option("--validation", help="File with validation rows.", show_default="10% of the training rows"),
]
Test = Annotated[
    Optional[str],
    typer.Option("--test", help="File with test rows.", show_default="20% of the rows"),
]
Metric = Annotated[
    Optional[str],
    typer.Option("--metric", help="How predictions are judged.", show_default="the task's own"),
]
MaxLength = Annotated[
    Optional[int],
    typer.Option(
        "--max-length", min=1, help="Cut texts at this many tokens.", show_default="the model's limit, 512 at most"
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything drawn at random.")]
Threads = Annotated[
    Optional[int],
    typer.Option("--threads", min=1, max=256, help="CPU threads to use.", show_default="all cores"),
]
Device = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, mps.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
TunedFolder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="A tuned model: a run's folder, its model folder, or any stock classifier."),
]
Base = Annotated[
    Optional[str],
    typer.Option(
        "--model",
        help="The encoder that an adapter, prefix or mean-headed model was tuned from, if it has moved.",
        show_default="where it was",
    ),
]


def one_source(file: str | None, data: str | None) -> str | None:
    """The data, which may be given as an argument or as a flag, or not at all."""
    if file is not None and data is not None:
        raise OptionError(f"data given twice: {file!r} and --data {data!r}; give it once")
    source = data if file is None else file
    if source is not None and not source.strip():
        raise OptionError("data '': is empty; give a file, a preset or a hub id, or leave it out for the embedded data")
    return source


Workers = Annotated[
    Optional[int],
    typer.Option("--workers", help="Processes that run trials at the same time.", show_default="1"),
]
On = Annotated[
    Optional[str],
    typer.Option(
        "--on",
        metavar="ray|ADDRESS",
        help="Run trials with Ray, here or on the cluster at the address.",
        show_default="processes on this machine",
    ),
]
CpusPerTrial = Annotated[float, typer.Option("--cpus-per-trial", help="CPUs of a trial, with --on.")]
GpusPerTrial = Annotated[float, typer.Option("--gpus-per-trial", help="GPUs of a trial, with --on.")]


def compute(
    workers: int | None, on: str | None, cpus_per_trial: float, gpus_per_trial: float, *, device: str
) -> Compute:
    """Return where trials run; refuse options that exclude each other."""
    from frostline.records.compute import Compute

    if on is None and (cpus_per_trial, gpus_per_trial) != (1, 0):
        raise OptionError(
            "--cpus-per-trial and --gpus-per-trial: are for --on ray or an address; say --device for here"
        )
    if on is not None and workers is not None:
        raise OptionError("--workers: is for processes on this machine; with --on, --cpus-per-trial says how many fit")
    return Compute(
        workers=1 if workers is None else workers,
        on=on,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        device=device,
    )
