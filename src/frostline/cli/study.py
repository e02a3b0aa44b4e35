"""`frostline study`: repeat an experiment of the papers on any encoder and task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli._shared import groups, options, recipes, screen
from frostline.cli._shared.flags import with_flags
from frostline.errors import OptionError, TrialsFailed
from frostline.options import parse_options
from frostline.progress import Progress, Step

if TYPE_CHECKING:
    from frostline.api._study import StudyOptions
    from frostline.studies._engine.run import Studied


_RECIPE = (
    "learning_rate", "epochs", "batch", "max_length", "threads",
    "select", "warmup", "schedule", "head", "lower_dropout",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StudyFlags:
    """Encoders, tasks and settings of a study; the paper's by default."""

    encoder: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            "--model",
            help="Folder or hub id of an encoder; repeatable.",
            show_default="the embedded all-MiniLM-L6-v2",
        ),
    ] = None
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--tasks",
            help="Presets or files, as in glue/sst2,glue/cola; repeatable.",
            show_default="the paper's",
        ),
    ] = None
    seeds: Annotated[int | None, typer.Option("--seeds", help="Number of seeds.", show_default="the paper's")] = None
    rows: Annotated[int | None, typer.Option("--rows", help="Most training rows.", show_default="all")] = None
    quick: Annotated[bool, typer.Option("--quick", help="Run a small version in minutes: few trials, 300 rows.")] = (
        False
    )
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="Option of the study; repeatable."),
    ] = None
    protocol: Annotated[
        str,
        typer.Option(
            help="'held-out' selects on validation; 'paper' selects on the test rows, as in papers that select at all."
        ),
    ] = "held-out"
    margin: Annotated[float, typer.Option(help="Loss in the metric, in points, that counts as small.")] = 1.0
    text: options.Text = None
    text_pair: options.TextPair = None
    label: options.Label = None
    kind: options.Kind = None
    data_dir: options.DataDir = None
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Metric that decides, on every task.", show_default="each task's own"),
    ] = None
    recipe_file: recipes.RecipeFile = None
    epochs: Annotated[int | None, typer.Option(help="Epochs per trial.", show_default="the paper's")] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Learning rate of every trial.", show_default="the paper's, by encoder size"),
    ] = None
    batch: Annotated[int | None, typer.Option(help="Batch size.", show_default="the paper's")] = None
    max_length: options.MaxLength = None
    select: Annotated[
        str | None,
        typer.Option(help="Checkpoint to keep: 'best' on validation, or 'last'.", show_default="the paper's"),
    ] = None
    warmup: Annotated[
        float | None, typer.Option(help="Share of the steps used for warm-up.", show_default="the paper's")
    ] = None
    schedule: Annotated[
        str | None,
        typer.Option(help="Learning-rate schedule after warm-up: linear or constant.", show_default="the paper's"),
    ] = None
    head: Annotated[
        str | None,
        typer.Option(
            help="'family' for the architecture's own head, 'mean' for mean pooling and a linear layer.",
            show_default="the paper's",
        ),
    ] = None
    lower_dropout: recipes.DropoutFrozen = None
    threads: Annotated[
        int | None, typer.Option(help="CPU threads per trial; results depend on it.", show_default="1")
    ] = None

    def __post_init__(self) -> None:
        if any(not names.strip(", ") for names in self.tasks or []):
            raise OptionError("--tasks '': names no task; omit it to use the study's default tasks")

    def options(self) -> StudyOptions:
        """Return the options of `frostline.study`."""
        from frostline.api._study import StudyOptions

        recipe = {name: getattr(self, name) for name in _RECIPE}
        return StudyOptions(
            encoders=self.encoder or [None],
            tasks=[name.strip() for names in self.tasks or [] for name in names.split(",") if name.strip()],
            seeds=self.seeds,
            rows=self.rows,
            quick=self.quick,
            options=parse_options(self.option or [], where="--option"),
            recipe=recipes.fields_of(self.recipe_file, **recipe),
            metric=self.metric,
            protocol=self.protocol,
            margin=self.margin,
            columns={"text": self.text, "text_pair": self.text_pair, "label": self.label, "kind": self.kind},
            data_dir=self.data_dir,
        )


def command(
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the study; see --list.")] = None,
    list_studies: Annotated[bool, typer.Option("--list", help="List the studies and exit.")] = False,
    asked: StudyFlags,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Output folder for trials and tables.", show_default="frostline-study-NAME"),
    ] = None,
    trials: groups.ComputeOptions,
    device: options.Device = "cpu",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed trials again.")] = False,
    cache: options.Cache = True,
    estimate: Annotated[
        bool, typer.Option("--estimate/--no-estimate", help="Estimate the duration first, by timing a few steps.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the number of trials and their estimated duration, and exit.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Repeat an experiment of the papers on your encoders and tasks.

    A study runs many trials, stores each in the output folder, and prints tables with confidence intervals. To continue
    an interrupted study, repeat the command. A failed trial does not stop the others.
    """
    if list_studies or name is None:
        _list(as_json=as_json)
        return
    with screen.starting():
        from frostline.api._study import study
        from frostline.kernels.device import use_device
        from frostline.studies import STUDIES
    chosen = STUDIES[name]  # refuses an unknown name before anything is loaded
    if dry_run and as_json:
        raise OptionError("--dry-run prints one line, not tables; remove --json")
    compute = trials.compute(use_device(device))
    settings = asked.options()
    with screen.stages() as progress, screen.resumable("the same command continues the study"):
        studied = study(
            name,
            settings,
            output=output,
            compute=compute,
            retry_failed=retry_failed,
            cache=cache,
            estimate=estimate,
            dry_run=dry_run,
            progress=_with_trials(progress, chosen.name),
        )
    if dry_run and not studied.points:
        screen.say("no trial was run; repeat the command without --dry-run to run the study")
        return
    if as_json:
        screen.print_json(studied.to_json())
    else:
        _show(studied)
    if studied.failed:
        raise TrialsFailed(
            f"{len(studied.failed)} trials failed, the first: {studied.failed[0]}; --retry-failed runs them again"
        )


def _with_trials(progress: Progress, name: str) -> Progress:
    """Return a callback that shows the number of finished trials, and the progress of the current one."""
    done, total = 0, 0

    def show(step: Step) -> None:
        nonlocal done, total
        current = ""
        if step.stage == "trials":
            done, total = step.done, step.total
        else:
            share = f" {step.done / step.total:.0%}" if step.total > 1 else ""
            current = f"{screen.describe(step)}{share}; "
        progress(replace(step, stage=name, detail=f"{current}trials", done=done, total=total))

    return show


def _list(*, as_json: bool) -> None:
    from frostline.studies import STUDIES

    rows = [
        {
            "name": name,
            "paper": study.paper,
            "question": study.question,
            "options": dict(study.defaults),
            "recipe": dict(study.recipe),
            "unstated": dict(study.unstated),
            "selection": with_flags(study.selection),
        }
        for name, study in STUDIES.items()
    ]
    screen.list_records("studies", rows, {"name": "study", "paper": "paper", "question": "question"}, as_json=as_json)
    if not as_json:
        screen.say("\nTo run a small version in minutes: frostline study NAME --quick")


def _show(studied: Studied) -> None:
    for table in studied.tables:
        screen.show_table(table)
    screen.say(
        f"tables:  {studied.folder / 'tables'}",
        f"again:   frostline results {studied.folder}; its trials: --trials",
        f"report:  frostline report {studied.folder}",
    )
