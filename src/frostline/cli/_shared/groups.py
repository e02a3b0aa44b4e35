"""Groups of flags that commands share: each is declared once, and does the work that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli._shared import options, screen
from frostline.errors import OptionError

if TYPE_CHECKING:
    import torch

    from frostline.encoders.encoder import Encoder
    from frostline.records.compute import Compute
    from frostline.tasks import Task
    from frostline.tasks.task import Kind


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Which labelled rows, and what their columns are."""

    file: Annotated[str | None, typer.Argument(metavar="DATA", help="The same as --data.", show_default=False)] = None
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
        str | None, typer.Option("--metric", help="How predictions are judged.", show_default="the task's own")
    ] = None

    def __post_init__(self) -> None:
        if self.file is not None and self.data is not None:
            raise OptionError(f"data given twice: {self.file!r} and --data {self.data!r}; give it once")
        if self.source is not None and not self.source.strip():
            raise OptionError(
                "data '': is empty; give a file, a preset or a hub id, or leave it out for the embedded data"
            )

    @property
    def source(self) -> str | None:
        """What the data was given as, by name or by flag; None for the embedded data."""
        return self.data if self.file is None else self.file

    def load_task(self, *, seed: int, kind: Kind | None = None, splits: bool = True) -> Task:
        """Return the task.

        Args:
            seed: of splits.
            kind: what the labels are, where --kind does not tell.
            splits: whether to carve splits.
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
                kind=kind if self.kind is None else self.kind.value,
                data_dir=self.data_dir,
                validation=self.validation,
                test=self.test,
                metric=self.metric,
                seed=seed,
                splits=splits,
            )

    def load_task_or_sample(self, *, seed: int) -> Task:
        """Return the task; of the embedded data a part that is small enough for a first run of a few minutes."""
        from frostline.api._arguments import sample_demo

        task = self.load_task(seed=seed)
        return sample_demo(task, seed=seed) if self.source is None else task


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """Which encoder."""

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
        int | None, typer.Option("--threads", min=1, max=256, help="CPU threads to use.", show_default="all cores")
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
        int | None, typer.Option("--workers", help="Processes that run trials at the same time.", show_default="1")
    ] = None
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="ray|ADDRESS",
            help="Run trials with Ray, here or on the cluster at the address.",
            show_default="processes on this machine",
        ),
    ] = None
    cpus_per_trial: Annotated[float, typer.Option("--cpus-per-trial", help="CPUs of a trial, with --on.")] = 1
    gpus_per_trial: Annotated[float, typer.Option("--gpus-per-trial", help="GPUs of a trial, with --on.")] = 0

    def compute(self, device: torch.device) -> Compute:
        """Return where trials run."""
        from frostline.records.compute import Compute

        return Compute(
            workers=1 if self.workers is None else self.workers,
            on=self.on,
            cpus_per_trial=self.cpus_per_trial,
            gpus_per_trial=self.gpus_per_trial,
            device=str(device),
        )
