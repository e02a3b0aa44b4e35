"""`frostline plan`: the plans that a run would race, with their reasons and costs."""

from __future__ import annotations

from frostline.cli._shared import budgets, groups, options, screen
from frostline.records import Recipe


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
    """List the plans that a run would race, cheapest first, with their costs on this machine.

    Layers are measured and a few training steps are timed; nothing is tuned.
    """
    budget = limits.budget()
    with screen.starting():
        from frostline.api._plan import plan
    recipe = Recipe(epochs=epochs, batch=batch, max_length=max_length, threads=machine.threads, seed=seed)
    device = machine.use()
    task = data.load_task_or_sample(seed=seed)
    loaded = encoder.load(device)
    with screen.stages() as progress:
        plans = plan(
            loaded,
            task,
            budget=budget,
            recipe=recipe,
            allow_frostline_only=limits.allow_frostline_only,
            progress=progress,
        )
    if as_json:
        screen.print_json(plans.to_json())
        return
    screen.say(f"{plans.table.title}, {epochs} epochs\n", style="bold")
    screen.out().print(screen.rich_table(plans.table, left=("plan", "from")))
    screen.say(
        "\n(bottom, top, head): layers bottom to top are trained, the head reads the output of layer head, and layers "
        "above it are dropped. Latency is relative to the whole encoder; seconds are the expected time and range of "
        "tuning on this machine."
    )
    screen.say_notes(plans.notes)
