"""`frostline run`: choose the layers to tune, tune them, and save the model with the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli._shared import budgets, groups, options, recipes, screen
from frostline.records import Recipe

if TYPE_CHECKING:
    from frostline.search.run_result import Run


def command(
    *,
    data: groups.DataOptions,
    encoder: groups.EncoderOptions,
    output: Annotated[
        Path, typer.Option("--output", help="Output folder for the model, the report and all results.")
    ] = Path("frostline-run"),
    overwrite: options.Overwrite = False,
    limits: budgets.RunBudgetOptions,
    how: recipes.TrialRecipeOptions,
    proof: Annotated[
        bool, typer.Option("--proof/--no-proof", help="Compare the choice with full fine-tuning at the end.")
    ] = True,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Train the choice again on training and validation rows.")
    ] = True,
    cache: options.Cache = True,
    trials: groups.ComputeOptions,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Choose which layers to tune, tune them, and save a model that transformers loads without Frostline.

    Measures every layer, proposes plans, and trains them in rounds of growing size against full fine-tuning. The
    cheapest plan within the margin of the best is evaluated on held-out test rows and saved. Without arguments, a small
    embedded encoder is tuned on movie-review snippets. To continue an interrupted run, repeat the command.
    """
    budget = limits.budget(margin=limits.margin)
    with screen.starting():
        from frostline.api._run import check_folder, run
        from frostline.search.run import check_task
    recipe = Recipe(**how.given(threads=machine.threads))
    device = machine.use()
    compute = trials.compute(device)
    check_folder(output, overwrite=overwrite)
    task = data.load_task_or_sample(seed=recipe.seed)
    check_task(task)
    loaded = encoder.load(device)
    again = "the same command without --overwrite" if overwrite else "the same command"
    with screen.stages() as progress, screen.resumable(f"{again} continues the run in {output}"):
        result = run(
            loaded,
            task,
            output=output,
            overwrite=overwrite,
            budget=budget,
            recipe=recipe,
            allow_frostline_only=limits.allow_frostline_only,
            proof=proof,
            refit=refit,
            cache=cache,
            compute=compute,
            progress=progress,
        )
    if as_json:
        screen.print_json({**result.to_json(), "folder": str(output)})
    else:
        _show(result)


def _show(result: Run) -> None:
    from frostline.prediction.model_card import how_to_load
    from frostline.search.tables import race_table, tests_table
    from frostline.tasks.metrics import METRICS
    from frostline.tasks.raw_table import counted

    run, model = result.record, result.folder / "model"
    screen.say(f"{run.encoder.name} ({run.encoder.layers} layers) on {run.task.name}", style="bold")
    screen.say(
        f"{counted(len(run.proposals), 'plan')} raced in {counted(len(run.race), 'round')}; those that were left, on "
        f"{run.judged_on}:\n"
    )
    race = race_table(run.final, run.proposals, METRICS[run.task.metric], decision=run.decision)
    screen.out().print(screen.rich_table(race.without("steps", "learning rate"), left=("", "plan", "from")))
    screen.say_notes(race.notes)
    screen.say("", *run.decision.why, *(f"- {line}" for line in run.given_up))
    if run.tests:
        screen.say("\nOn the test rows, which were read once:")
        screen.out().print(screen.rich_table(tests_table(run).without("trainable", "latency"), left=("model", "plan")))
    screen.say("\n" + ", ".join(f"{what} {seconds:.0f} s" for what, seconds in run.seconds.items()))
    cost = run.cost(run.plan)
    how = how_to_load(result.tuned, model, is_stock=cost is not None and cost.stock)
    screen.say(f"model:   {model}", f"report:  {result.folder / 'report.html'}", f"load it: {how}", wrap=False)
    screen.say(*(f"failed: {line}" for line in run.failed))
    screen.say_notes(run.notes[result.announced :])
