"""`frostline run`: measures, proposes, races, tunes, tests, saves; and says why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli._shared import budgets, groups, options, recipes, screen
from frostline.errors import Interrupted

if TYPE_CHECKING:
    from frostline.search.run_result import Run


def command(
    *,
    data: groups.DataOptions,
    encoder: groups.EncoderOptions,
    output: Annotated[
        Path, typer.Option("--output", help="Folder for the model, the report and all that was found.")
    ] = Path("frostline-run"),
    overwrite: options.Overwrite = False,
    limits: budgets.RunBudgetOptions,
    how: recipes.TrialRecipeOptions,
    cache: options.Cache = True,
    trials: groups.ComputeOptions,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Choose which layers to tune, tune them, and save a model that transformers loads without Frostline.

    Every layer is measured, plans are proposed with their costs and raced against each other and against full
    fine-tuning, and the cheapest one that is as good as the best is tested on held-out rows and saved. With no
    arguments it does all this with a small encoder on movie-review snippets. An interrupted run continues
    when the same command is given again.
    """
    budget = limits.budget(margin=limits.margin)
    with screen.starting():
        from frostline.api._run import check_folder, run
        from frostline.records import Recipe
        from frostline.search.run import check_task
    recipe = Recipe(**how.given(threads=machine.threads))
    device = machine.use()
    compute = trials.compute(device)
    check_folder(output, overwrite=overwrite)
    task = data.load_task_or_sample(seed=recipe.seed)
    check_task(task)
    loaded = encoder.load(device)
    with screen.stages() as progress:
        try:
            found = run(
                loaded,
                task,
                output=output,
                overwrite=overwrite,
                budget=budget,
                recipe=recipe,
                allow_frostline_only=limits.allow_frostline_only,
                cache=cache,
                compute=compute,
                progress=progress,
            )
        except KeyboardInterrupt:
            again = "the same command without --overwrite" if overwrite else "the same command"
            raise Interrupted(f"interrupted; {again} continues the run in {output}") from None
    if as_json:
        screen.print_json({**found.to_json(), "folder": str(output)})
    else:
        _show(found)


def _show(found: Run) -> None:
    from frostline.prediction.model_card import how_to_load
    from frostline.search.tables import race_table, tests_table
    from frostline.tasks.metrics import METRICS
    from frostline.tasks.raw_table import counted

    console, run = screen.out(), found.record
    console.print(f"{run.encoder.name} ({run.encoder.layers} layers) on {run.task.name}", style="bold", markup=False)
    before = sum(len(rung) for rung in run.race[:-1])
    console.print(
        f"{counted(len(run.proposals), 'plan')} raced; {counted(before, 'shorter trial')} led to these complete "
        f"ones, on {run.validation_rows:,} validation rows:\n",
        markup=False,
    )
    race = race_table(run.final, run.proposals, METRICS[run.task.metric], decision=run.decision)
    console.print(screen.rich_table(race.without("learning rate", "because"), left=("", "plan", "from")))
    console.print()
    for reason in run.decision.why:
        console.print(reason, markup=False)
    for line in run.given_up:
        console.print(f"- {line}", markup=False)
    if run.tests:
        tests = tests_table(run).without("trainable", "latency")
        console.print("\nOn the test rows, which were read once:", markup=False)
        console.print(screen.rich_table(tests, left=("model", "plan")))
    spent = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in run.seconds.items())
    console.print(f"\n{spent}", markup=False)
    where = found.folder / "model"
    console.print(f"model:   {where}", markup=False, soft_wrap=True)
    console.print(f"report:  {found.folder / 'report.html'}", markup=False, soft_wrap=True)
    cost = run.cost(run.plan)
    is_stock = cost is not None and cost.stock
    console.print(f"load it: {how_to_load(found.tuned, where, is_stock=is_stock)}", markup=False, soft_wrap=True)
    for line in run.failed:
        console.print(f"failed: {line}", markup=False)
    for note in run.notes[found.announced :]:
        console.print(f"note: {note}", style="dim", markup=False)
