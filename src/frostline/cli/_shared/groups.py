"""Groups of flags that several commands have, each declared once, with the loading that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli._shared import options, screen
from frostline.errors import OptionError
from frostline.records.compute import Compute

if TYPE_CHECKING:
    import torch

    from frostline.encoders.encoder import Encoder
    from frostline.tasks import Task
    from frostline.tasks.task import Kind


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The labelled data and its columns."""

    file: Annotated[str | None, typer.Argument(metavar="DATA", help="Same as --data.", show_default=False)] = None
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Labelled file (CSV, TSV, JSON lines, JSON, Parquet; plain or .gz), preset such as glue/sst2, or hub "
            "id.",
            show_default="the embedded movie-review snippets",
        ),
    ] = None
    text: options.Text = None
    text_pair: options.TextPair = None
    label: options.Label = None
    choices: options.Choices = None
    kind: options.Kind = None
    data_dir: options.DataDir = None
    validation: Annotated[
        str | None,
        typer.Option("--validation", help="File with validation rows.", show_default="10% of the training rows"),
    ] = None
    test: Annotated[str | None, typer.Option("--test", help="File with test rows.", show_default="20% of the rows")] = (
        None
    )
    metric: Annotated[
        str | None, typer.Option("--metric", help="Metric that decides.", show_default="the task's default")
    ] = None

    def __post_init__(self) -> None:
        if self.file is not None and self.data is not None:
            raise OptionError(f"data given twice: {self.file!r} and --data {self.data!r}; give it once")
        if self.source is not None and not self.source.strip():
            raise OptionError(
                "data '': is empty; give a file, a preset or a hub id, or omit it to use the embedded data"
            )

    @property
    def source(self) -> str | None:
        """The data, as an argument or as a flag; None for the embedded data."""
        return self.data if self.file is None else self.file

    def load_task(self, *, seed: int, kind: Kind | None = None, splits: bool = True) -> Task:
        """Return the task.

        Args:
            seed: seed of the splits.
            kind: kind of task to assume without --kind.
            splits: whether to split off validation and test rows.
        """
        from frostline.api._arguments import DEMO_TASK
        from frostline.tasks import load_task

        with screen.waiting("reading the data"):
            return load_task(
                DEMO_TASK if self.source is None else self.source,
                text=self.text,
                text_pair=self.text_pair,
                label=self.label,
                choices=self.choices,
                kind=self.kind or kind,
                data_dir=self.data_dir,
                validation=self.validation,
                test=self.test,
                metric=self.metric,
                seed=seed,
                splits=splits,
            )

    def load_task_or_sample(self, *, seed: int) -> Task:
        """Return the task; without data, a part of the embedded data, small enough for a first run of a few minutes."""
        from frostline.api._arguments import sample_demo

        task = self.load_task(seed=seed)
        return sample_demo(task, seed=seed) if self.source is None else task


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """The encoder."""

    model: Annotated[
        str | None,
        typer.Option("--model", help="Folder or hub id of the encoder.", show_default="the embedded all-MiniLM-L6-v2"),
    ] = None
    revision: Annotated[
        str | None, typer.Option("--revision", help="Branch, tag or commit of a hub model.", show_default=False)
    ] = None

    def load(self, device: torch.device) -> Encoder:
        """Return the encoder, on the device."""
        from frostline.encoders.loading import load_encoder

        with screen.waiting("loading the encoder"):
            return load_encoder(self.model, revision=self.revision, device=device)


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """Where this process computes."""

    threads: Annotated[
        int | None, typer.Option("--threads", min=1, max=256, help="CPU threads.", show_default="all cores")
    ] = None
    device: options.Device = "cpu"

    def use(self) -> torch.device:
        """Return the device, checked to be there; sets the number of threads."""
        from frostline.kernels.device import use_device

        return use_device(self.device, threads=self.threads)


@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """Where trials run."""

    workers: Annotated[
        int | None, typer.Option("--workers", help="Parallel processes for trials.", show_default="1")
    ] = None
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="ray|ADDRESS",
            help="Run trials with Ray, on this machine or on the cluster at ADDRESS.",
            show_default="processes on this machine",
        ),
    ] = None
    cpus_per_trial: Annotated[float, typer.Option("--cpus-per-trial", help="CPUs per trial, with --on.")] = 1
    gpus_per_trial: Annotated[float, typer.Option("--gpus-per-trial", help="GPUs per trial, with --on.")] = 0

    def compute(self, device: torch.device) -> Compute:
        """Return where trials run."""
        return Compute(
            workers=1 if self.workers is None else self.workers,
            on=self.on,
            cpus_per_trial=self.cpus_per_trial,
            gpus_per_trial=self.gpus_per_trial,
            device=str(device),
        )
