"""`frostline tune`: tune by a plan; print the freeze audit, the metrics and where the model is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from frostline.cli._shared import groups, options, recipes, screen
from frostline.errors import OptionError
from frostline.options import in_words

if TYPE_CHECKING:
    from frostline.training.result import Tuned


@dataclass(frozen=True, kw_only=True)
class PlanFlags:
    """Which layers train, by which method and with which learning rates."""

    plan: Annotated[
        str,
        typer.Option(
            help="Layers to train: bottom,top,head as in 9,12,12; layers=2+5+9,head=12; freeze=8; a strategy as in "
            "best-down:layers=2; or a JSON file. See `--list-plans`."
        ),
    ] = "full"
    method: Annotated[
        str | None,
        typer.Option(help="Tuning method, as in lora:rank=8. See `--list-methods`.", show_default="full"),
    ] = None
    scores: Annotated[
        Path | None,
        typer.Option(help="Folder of a saved measurement, for strategies that need one.", show_default="measured now"),
    ] = None
    rates: Annotated[
        str | None,
        typer.Option(
            help="Learning rates to try, as in 1e-5,3e-5; the best on validation is kept. 'paper' tries "
            "those of Xie et al. (2022).",
            show_default="only the default rate",
        ),
    ] = None

    layer_rates: Annotated[
        str | None,
        typer.Option(
            metavar="SCORE",
            help="Learning rates of the layers in proportion to a layer score, as in gradient_norm (Lee et al. 2023).",
            show_default="the same rate for all layers",
        ),
    ] = None

    def tried(self, *, learning_rate: float | None) -> tuple[float, ...] | Literal["paper"]:
        """Return the learning rates to try.

        Args:
            learning_rate: value of --learning-rate, if set.
        """
        if self.rates is None:
            return ()
        if learning_rate is not None:
            raise OptionError("--rates and --learning-rate: give one of them")
        if self.rates == "paper":
            return "paper"
        try:
            rates = tuple(float(word) for word in self.rates.split(","))
        except ValueError:
            rates = ()
        if not rates or not all(0 < rate < float("inf") for rate in rates):
            raise OptionError(f"--rates {self.rates!r}: must be numbers above 0 as in 1e-5,3e-5, or 'paper'")
        return rates


def command(
    *,
    data: groups.DataOptions,
    encoder: groups.EncoderOptions,
    what: PlanFlags,
    list_plans: Annotated[bool, typer.Option("--list-plans", help="List the strategies and exit.")] = False,
    list_methods: Annotated[bool, typer.Option("--list-methods", help="List the methods and exit.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", help="Output folder for the model, its card, metrics and predictions.", show_default="none"
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the interrupted run in the output folder.")
    ] = False,
    how: recipes.RecipeOptions,
    cache: options.Cache = True,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Tune chosen layers of an encoder on a task, and save a model that transformers loads without Frostline.

    The frozen layers below the lowest tuned layer are computed once and cached; layers above the head are dropped.
    Without arguments, a small embedded encoder is tuned on movie-review snippets.
    """
    if list_plans or list_methods:
        _list(plans=list_plans, methods=list_methods, as_json=as_json)
        return
    with screen.starting():
        from frostline.api._arguments import to_scores
        from frostline.api._tune import check_arguments, tune
    recipe = how.given(threads=machine.threads)
    tried = what.tried(learning_rate=how.learning_rate)
    check_arguments(
        plan=what.plan,
        method=what.method,
        recipe=recipe,
        output=output,
        overwrite=overwrite,
        resume=resume,
        layer_rates=what.layer_rates,
    )
    device, scores = machine.use(), to_scores(what.scores)
    task = data.load_task_or_sample(seed=recipe.get("seed", 0))
    loaded = encoder.load(device)
    how_to_continue = None if output is None else f"the same command with --resume continues in {output}"
    with screen.stages() as progress, screen.resumable(how_to_continue):
        tuned = tune(
            loaded,
            task,
            plan=what.plan,
            method=what.method,
            scores=scores,
            recipe=recipe,
            rates=tried,
            layer_rates=what.layer_rates,
            output=output,
            overwrite=overwrite,
            resume=resume,
            cache=cache,
            progress=progress,
        )
    if as_json:
        screen.print_json({**tuned.to_json(), "folder": None if output is None else str(output)})
    else:
        _show(tuned)


def _list(*, plans: bool, methods: bool, as_json: bool) -> None:
    with screen.starting():
        from frostline.plans.methods import METHODS
        from frostline.plans.strategies import STRATEGIES
    listed: dict[str, list[dict[str, Any]]] = {}
    if plans:
        listed["strategies"] = [
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
        listed["methods"] = [
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
        screen.print_json(listed)
        return
    for kind, rows in listed.items():
        lines = [[row["name"], in_words(row["options"]), row["summary"]] for row in rows]
        screen.out().print(screen.table([kind, "options", "what it does"], lines), "")
    if plans:
        screen.say("Or name the layers: 9,12,12 (bottom, top, head); layers=2+5+9,head=12; freeze=8.")


def _show(tuned: Tuned) -> None:
    from frostline.prediction.model_card import how_to_load
    from frostline.training.stock_model import is_stock

    screen.say(f"audit: {tuned.trained.audit}\n")
    screen.print_metrics(tuned.metrics, {name: len(rows) for name, rows in tuned.task.splits.items()})
    screen.say("\n" + ", ".join(f"{what} {seconds:.1f} s" for what, seconds in tuned.seconds.items()))
    if tuned.folder is not None:
        model = tuned.folder / "model"
        how = how_to_load(tuned, model, is_stock=is_stock(tuned.tunable))
        screen.say(f"model: {model}", f"load it: {how}", wrap=False)
    printed = screen.printed_lines()
    screen.say_notes(note for note in tuned.notes if note not in printed and f"note: {note}" not in printed)
