"""`frostline plan`: the plans that are worth trying, with their reasons and costs, before any is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frostline.cli._shared import budgets, groups, options, screen

if TYPE_CHECKING:
    from frostline.records.plans import Plans


def command(
    *,
    data: groups.DataOptions,
    encoder: groups.EncoderOptions,
    limits: budgets.BudgetOptions,
    epochs: options.Epochs = 3,
    batch: options.Batch = 32,
    max_length: options.MaxLength = None,
    seed: options.Seed = 0,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Propose plans for a task, with what each costs on this machine, cheapest first.

    Layers are measured and a few steps are timed; nothing is tuned.
    """
    budget = limits.budget()
    with screen.starting():
        from frostline.api._plan import plan
        from frostline.records import Recipe
    recipe = Recipe(epochs=epochs, batch=batch, max_length=max_length, threads=machine.threads, seed=seed)
    device = machine.use()
    task = data.load_task_or_sample(seed=seed)
    loaded = encoder.load(device)
    with screen.stages() as progress:
        found = plan(
            loaded,
            task,
            budget=budget,
            recipe=recipe,
            allow_frostline_only=limits.allow_frostline_only,
            progress=progress,
        )
    if as_json:
        screen.print_json(found.to_json())
    else:
        _show(found, epochs=epochs)


def _show(found: Plans, *, epochs: int) -> None:
    console = screen.out()
    table = found.table
    console.print(f"{table.title}, {epochs} epochs\n", style="bold", markup=False)
    console.print(screen.rich_table(table, left=("plan", "from")))
    console.print(
        "\n(bottom, top, head): those layers train and the head reads there; what lies above is dropped. Latency is "
        "relative to the whole encoder; seconds are for tuning on this machine, with the range that is likely.",
        markup=False,
    )
    for note in found.notes:
        console.print(f"note: {note}", style="dim", markup=False)
