"""`frostline study`: reruns one of the papers' experiments on any encoder and task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli._shared import groups, options, recipes, screen
from frostline.errors import Interrupted, OptionError, TrialsFailed
from frostline.options import parse_options
from frostline.progress import Progress, Step

if TYPE_CHECKING:
    from frostline.api._study import StudyOptions
    from frostline.studies._engine.run import Studied


@dataclass(frozen=True, kw_only=True)
class StudyFlags:
    """What the study looks at; what is not given is as in the paper."""

    encoder: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            "--model",
            help="Folder or hub id; may be given several times.",
            show_default="the embedded all-MiniLM-L6-v2",
        ),
    ] = None
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            "--tasks",
            help="Presets or files, as in glue/sst2,glue/cola; may be given several times.",
            show_default="the paper's",
        ),
    ] = None
    seeds: Annotated[int | None, typer.Option("--seeds", help="How many.", show_default="the paper's")] = None
    rows: Annotated[int | None, typer.Option("--rows", help="Training rows at most.", show_default="all")] = None
    quick: Annotated[bool, typer.Option("--quick", help="A first look: few trials, 300 rows, minutes.")] = False
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="Of the study; may be given several times."),
    ] = None
    protocol: Annotated[
        str, typer.Option(help="'held-out' selects on validation; 'paper' selects on the test rows, as the papers do.")
    ] = "held-out"
    margin: Annotated[float, typer.Option(help="Points of the metric that count as little to lose.")] = 1.0
    text: options.Text = None
    text_pair: options.TextPair = None
    label: options.Label = None
    kind: options.Kind = None
    data_dir: options.DataDir = None
    recipe_file: recipes.RecipeFile = None
    epochs: Annotated[int | None, typer.Option(help="Epochs per trial.", show_default="the paper's")] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Learning rate of every trial.", show_default="the paper's, by the encoder's width"),
    ] = None
    batch: Annotated[int | None, typer.Option(help="Rows per step.", show_default="the paper's")] = None
    max_length: options.MaxLength = None
    threads: Annotated[
        int | None, typer.Option(help="CPU threads of each trial; results depend on it.", show_default="1")
    ] = None

    def __post_init__(self) -> None:
        if any(not given.strip(", ") for given in self.tasks or []):
            raise OptionError("--tasks '': names no task; omit it to use the study's default tasks")

    def options(self) -> StudyOptions:
        """Return what the study looks at."""
        from frostline.api._study import StudyOptions

        recipe = {name: getattr(self, name) for name in ("learning_rate", "epochs", "batch", "max_length", "threads")}
        columns = {"text": self.text, "text_pair": self.text_pair, "label": self.label}
        return StudyOptions(
            encoders=self.encoder or [None],
            tasks=[name.strip() for given in self.tasks or [] for name in given.split(",") if name.strip()],
            seeds=self.seeds,
            rows=self.rows,
            quick=self.quick,
            options=parse_options(self.option or [], where="--option"),
            recipe=recipes.fields_of(self.recipe_file, **recipe),
            protocol=self.protocol,
            margin=self.margin,
            columns={**columns, "kind": self.kind and self.kind.value},
            data_dir=self.data_dir,
        )


def command(
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which study; see --list.")] = None,
    list_studies: Annotated[bool, typer.Option("--list", help="List the studies and stop.")] = False,
    asked: StudyFlags,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Folder for trials and tables.", show_default="frostline-study-NAME"),
    ] = None,
    trials: groups.ComputeOptions,
    device: options.Device = "cpu",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run trials again that have failed.")] = False,
    cache: options.Cache = True,
    estimate: Annotated[
        bool, typer.Option("--estimate/--no-estimate", help="Time a few steps first, to say how long it will take.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many trials there are and how long they will take, and stop.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Rerun one of the papers' experiments: many trials, recorded one by one, and tables with intervals.

    What is recorded in the folder is not run again: a study that was stopped goes on when the same command is given. A
    trial that fails is counted and does not stop the others.
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
    with screen.stages() as progress:
        try:
            found = study(
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
        except KeyboardInterrupt:
            raise Interrupted("interrupted; the same command goes on with the study") from None
    if dry_run and not found.points:
        screen.say("nothing was run; the same command without --dry-run starts")
    else:
        _finish(found, as_json=as_json)


def _finish(found: Studied, *, as_json: bool) -> None:
    if as_json:
        screen.print_json(found.to_json())
    else:
        _show(found)
    if found.failed:
        raise TrialsFailed(
            f"{len(found.failed)} trials failed, the first: {found.failed[0]}; --retry-failed runs them again"
        )


def _with_trials(progress: Progress, name: str) -> Progress:
    """Return a callback that shows how many trials are done, and how far the one that runs is."""
    done, total = 0, 0

    def show(step: Step) -> None:
        nonlocal done, total
        if step.stage == "trials":
            done, total = step.done, step.total
        share = f" {step.done / step.total:.0%}" if step.total > 1 and step.stage != "trials" else ""
        within = "" if step.stage == "trials" else f"{screen.describe(step)}{share}; "
        progress(replace(step, stage=name, detail=f"{within}trials", done=done, total=total))

    return show


def _list(*, as_json: bool) -> None:
    from frostline.studies import STUDIES

    if as_json:
        rows = [{"name": name, "paper": one.paper, "question": one.question, "options": dict(one.defaults)}
                for name, one in STUDIES.items()]  # fmt: skip
        screen.print_json({"studies": rows})
        return
    console = screen.out()
    lines = [[name, one.paper, one.question] for name, one in sorted(STUDIES.items())]
    console.print(screen.table(["study", "paper", "what it asks"], lines))
    console.print("\nA first look in minutes: frostline study NAME --quick")


def _show(found: Studied) -> None:
    for table in found.tables:
        screen.show_table(table)
    console = screen.out()
    console.print(f"tables:  {found.folder / 'tables'}", markup=False)
    console.print(f"again:   frostline results {found.folder}; its trials: --trials", markup=False)
    console.print(f"report:  frostline report {found.folder}", markup=False)
