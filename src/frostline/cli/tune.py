"""`frostline tune`: what trains, the freeze audit, how good the result is and where it lies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from frostline.cli import groups, options, recipes, screen
from frostline.errors import Interrupted, OptionError, RecordError
from frostline.options import in_words

if TYPE_CHECKING:
    from frostline.encoders.encoder import Encoder
    from frostline.progress import Progress
    from frostline.records import LayerScores, Plan
    from frostline.tasks import Task
    from frostline.training.result import Tuned


def command(
    *,
    data: groups.DataOptions,
    encoder: groups.EncoderOptions,
    plan: Annotated[
        str,
        typer.Option(
            help="What trains: bottom,top,head as in 9,12,12; layers=2+5+9,head=12; freeze=8; a strategy as in "
            "best-down:layers=2; or a JSON file. See `--list-plans`."
        ),
    ] = "full",
    list_plans: Annotated[bool, typer.Option("--list-plans", help="Explain the strategies and stop.")] = False,
    method: Annotated[
        str | None,
        typer.Option(help="How it trains, as in lora:rank=8. See `--list-methods`.", show_default="full"),
    ] = None,
    list_methods: Annotated[bool, typer.Option("--list-methods", help="Explain the methods and stop.")] = False,
    scores: Annotated[
        Path | None,
        typer.Option(help="Folder of a saved measurement, for strategies that need one.", show_default="measured here"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Folder for the model, its card, metrics and predictions.", show_default="none"),
    ] = None,
    overwrite: options.Overwrite = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in that folder.")] = False,
    rates: Annotated[
        str | None,
        typer.Option(
            help="Learning rates to try, as in 1e-5,3e-5; the best on validation is kept. 'paper' tries "
            "those of Xie et al. (2022).",
            show_default="only the default rate",
        ),
    ] = None,
    how: recipes.RecipeOptions,
    cache: options.Cache = True,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Tune chosen layers of an encoder on a task, and save a model that transformers loads without Frostline.

    What lies below the lowest tuned layer is computed once and read from a cache; what lies above the head is dropped.
    With no arguments it tunes a small encoder on movie-review snippets.
    """
    if list_plans or list_methods:
        _list(plans=list_plans, methods=list_methods, as_json=as_json)
        return
    if output is None and (resume or overwrite):
        raise OptionError(f"--{'resume' if resume else 'overwrite'}: say which folder with --output")
    with screen.starting():
        from frostline.api._tune import tune
        from frostline.files import output_folder
        from frostline.plans.learning_rates import epochs_for
        from frostline.plans.parsing import check_words, with_method
        from frostline.records import Plan
    recipe = how.recipe(threads=machine.threads)
    tried = _rates(rates, how.learning_rate)
    with_method(Plan(layers=(), head=1), method)  # refuses an unknown one before anything is read
    check_words(plan)
    device = machine.use()
    if output is not None:
        output_folder.check_output(output, overwrite=overwrite, resume=resume)
    measured = None if scores is None else _read_scores(scores)
    task = data.load_task_or_sample(seed=recipe.seed)
    loaded = encoder.load(device)
    with screen.stages() as progress, _resumable(output):
        chosen = with_method(_plan(plan, loaded, task, measured, seed=recipe.seed, progress=progress), method)
        tuned = tune(
            loaded,
            task,
            plan=chosen,
            recipe=how.recipe(threads=machine.threads, epochs=epochs_for(chosen)),
            rates=tried,
            output=output,
            overwrite=overwrite,
            resume=resume,
            cache=cache,
            progress=progress,
        )
    if as_json:
        screen.print_json({**tuned.to_json(), "folder": None if output is None else str(output)})
    else:
        _show(tuned, {line.removeprefix("note: ") for line in screen.printed_lines()})


@contextlib.contextmanager
def _resumable(output: Path | None) -> Iterator[None]:
    """Say, when the user stops a run, how it can go on."""
    try:
        yield
    except KeyboardInterrupt:
        if output is None:
            raise
        raise Interrupted(f"interrupted; the same command with --resume goes on in {output}") from None


def _plan(
    words: str, encoder: Encoder, task: Task, scores: LayerScores | None, *, seed: int, progress: Progress
) -> Plan:
    from frostline.plans.parsing import read_plan
    from frostline.scoring.measurement import MeasureOptions, measure_layers

    if scores is not None and scores.encoder.revision != encoder.revision:
        raise OptionError(f"--scores: were measured on {scores.encoder.name}, not on {encoder.name}")
    return read_plan(
        words,
        encoder,
        task,
        scores=scores,
        seed=seed,
        measure=lambda names: measure_layers(
            encoder,
            task,
            MeasureOptions(scores=names, similarity=False, uncertainty=False, seed=seed),
            progress=progress,
        ),
    )


def _rates(words: str | None, learning_rate: float | None) -> tuple[float, ...] | Literal["paper"]:
    if words is None:
        return ()
    if learning_rate is not None:
        raise OptionError("--rates and --learning-rate: give one of them")
    if words == "paper":
        return "paper"
    try:
        rates = tuple(float(word) for word in words.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate < float("inf") for rate in rates):
        raise OptionError(f"--rates {words!r}: must be numbers above 0 as in 1e-5,3e-5, or 'paper'")
    return rates


def _read_scores(folder: Path) -> LayerScores:
    from frostline.records import LayerScores

    path = folder / "scores.json" if folder.is_dir() else folder
    try:
        return LayerScores.from_file(path)
    except OSError as error:
        raise OptionError(
            f"--scores {folder}: {error.strerror}; give a folder from `frostline measure --save`"
        ) from None
    except RecordError as error:
        raise OptionError(f"--scores {error}; give a folder from `frostline measure --save`") from None


def _list(*, plans: bool, methods: bool, as_json: bool) -> None:
    with screen.starting():
        from frostline.plans.methods import METHODS
        from frostline.plans.strategies import STRATEGIES
    found: dict[str, list[dict[str, Any]]] = {}
    if plans:
        found["strategies"] = [
            {
                "name": name,
                "options": dict(strategy.defaults),
                "needs": list(strategy.scores()),
                "paper": strategy.paper,
                "summary": strategy.summary,
            }
            for name, strategy in STRATEGIES.items()
        ]
    if methods:
        found["methods"] = [
            {
                "name": name,
                "options": dict(method.defaults),
                "learning_rate": method.learning_rate,
                "is_stock": method.is_stock,
                "summary": method.summary,
            }
            for name, method in METHODS.items()
        ]
    if as_json:
        screen.print_json(found)
        return
    for what, rows in found.items():
        lines = [[row["name"], in_words(row["options"]), row["summary"]] for row in rows]
        screen.out().print(screen.table([what, "options", "what it does"], lines))
        screen.out().print()
    if plans:
        screen.out().print("Layers by hand: 9,12,12 (bottom, top, head); layers=2+5+9,head=12; freeze=8.", markup=False)


def _show(tuned: Tuned, said: set[str]) -> None:
    from frostline.prediction.model_card import how_to_load
    from frostline.training.stock import is_stock

    console = screen.out()
    console.print(f"audit: {tuned.trained.audit}\n", markup=False)
    names = list(dict.fromkeys(name for values in tuned.metrics.values() for name in values))
    lines = [
        [split, f"{len(tuned.task.splits[split]):,}", *(f"{values[name]:.4f}" for name in names)]
        for split, values in tuned.metrics.items()
    ]
    console.print(screen.table(["rows", "count", *names], lines, right=["count", *names]))
    spent = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in tuned.seconds.items())
    console.print(f"\n{spent}", markup=False)
    if tuned.folder is not None:
        where = tuned.folder / "model"
        console.print(f"model: {where}", markup=False, soft_wrap=True)
        line = how_to_load(tuned, where, is_stock=is_stock(tuned.tunable))
        console.print(f"load it: {line}", markup=False, soft_wrap=True)
    for note in (note for note in tuned.notes if note not in said):
        console.print(f"note: {note}", style="dim", markup=False)
