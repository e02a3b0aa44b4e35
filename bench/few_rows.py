"""How many steps plans need on few labelled rows, and whether tuning layers is then better than a head alone.

    python bench/few_rows.py RESULTS.jsonl --data FOLDER --glue FOLDER [--sizes 64,256,16] [--seed 0] [--threads 1]
                             [--report]

On the development sets of `bench/sweep.py`, with so many labelled rows: heads alone, which are solved, and plans on the
averaged schedule at their usual rate, judged on up to 500 of the set's test rows after 40, 80 and 160 steps. From it
comes the length of the folds that few rows are judged in (`frostline.plans.lengths.fold_steps`).

Every training is a line of the results file; started again, it goes on with what is missing. `--report` runs nothing.
Last line: one flat JSON object, accuracies in points averaged over the sets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import transformers
from sweep import DEVELOPMENT, MAX_LENGTH, lines, plan_name, task_of

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.kernels.device import computing
from frostline.plans.learning_rates import head_rate_for, learning_rate_for
from frostline.records import Plan, Recipe
from frostline.tasks import Task
from frostline.tasks.splits import divide
from frostline.training.execution import Settings, execute
from frostline.training.half_products import usual_precision
from frostline.training.shared_inputs import SharedInputs

STEPS = 160
TEST = 500


def few(name: str, size: int, given: argparse.Namespace) -> Task:
    """Return a set with few training rows, and the test rows in place of those for validation."""
    whole = task_of(name, given, given.seed)
    _, train = divide(whole.train, size, seed=given.seed, purpose="few rows")
    _, test = divide(whole.test, TEST, seed=given.seed, purpose="few rows test")
    return replace(whole, train=train, validation=test, test=None)


def plans(depth: int) -> list[Plan]:
    """Return heads alone, the two middle layers, the same with a third of the layers dropped, and all layers."""
    heads = [Plan(layers=(), head=layer) for layer in range(depth - 2, depth + 1)]
    centre = depth // 2 + 1
    middle = Plan.span(centre - 1, centre, depth)
    return [*heads, middle, replace(middle, head=depth - depth // 3), Plan.full(depth)]


def recipe_of(plan: Plan, encoder: Encoder, given: argparse.Namespace) -> Recipe:
    """Return the recipe of a plan."""
    recipe = Recipe(
        schedule="averaged", steps=STEPS, select="last", learning_rate=learning_rate_for(plan, encoder.width),
        head_rate=head_rate_for(encoder.width), head="average", max_length=MAX_LENGTH, threads=given.threads,
        precision=usual_precision(encoder.device), seed=given.seed,
    )  # fmt: skip
    return recipe if plan.layers else replace(recipe, schedule="solved", steps=None, epochs=1, head_rate=None)


def run(name: str, size: int, encoder: Encoder, given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield the lines of one set and number of rows that are missing."""
    done = {(line["set"], line["size"], line["plan"]) for line in lines(given.results)}
    wanted = [plan for plan in plans(encoder.depth) if (name, size, plan_name(plan)) not in done]
    if not wanted:
        return
    task = few(name, size, given)
    shared = SharedInputs.for_recipe(encoder, task, recipe_of(wanted[0], encoder, given), keep=False)
    for plan in wanted:
        started = time.process_time()
        with computing(threads=given.threads):
            tuned = execute(shared, plan, recipe_of(plan, encoder, given), settings=Settings(test=False, is_short=True))
        history = [(step["step"], step["validation_accuracy"]) for step in tuned.trained.history]
        yield {
            "set": name,
            "size": size,
            "plan": plan_name(plan),
            "rows": len(task.train),
            "classes": len(set(task.train.labels)),
            "history": [[step, round(accuracy, 4)] for step, accuracy in history],
            "seconds": round(time.process_time() - started, 1),
        }


def report(recorded: list[dict]) -> dict[str, float]:
    """Print a row for each plan and number of rows; return the figures of the last line."""
    marks = sorted({step for line in recorded for step, _ in line["history"]})
    sets = list(dict.fromkeys(line["set"] for line in recorded))
    print(f"| rows | plan | steps | mean | {' | '.join(sets)} |\n|{'---|' * (len(sets) + 4)}")
    figures = {}
    for size, name in dict.fromkeys((line["size"], line["plan"]) for line in recorded):
        own = [line for line in recorded if (line["size"], line["plan"]) == (size, name)]
        for mark in marks:
            values = {line["set"]: 100 * dict(map(tuple, line["history"])).get(mark, float("nan")) for line in own}
            if len(values) < len(sets) or any(value != value for value in values.values()):
                continue
            mean = statistics.mean(values.values())
            steps = "solved" if name.startswith("head") else mark
            print(f"| {size} | {name} | {steps} | {mean:.1f} | {' | '.join(f'{values[one]:.1f}' for one in sets)} |")
            figures[f"{size}_rows_{name}_{steps}"] = round(mean, 2)
    return figures


def main() -> None:
    """Run what is missing, then report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    for name in ("data", "glue"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--sizes", default="64,256,16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if not given.report:
        encoder = load_encoder(None)
        for size in map(int, given.sizes.split(",")):
            for name in DEVELOPMENT:
                for line in run(name, size, encoder, given):
                    with given.results.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                    print(line["set"], size, line["plan"], line["history"], f"{line['seconds']:.0f} s", flush=True)
    print(json.dumps(report(lines(given.results))))


if __name__ == "__main__":
    main()
