"""Whether the mean of the weights of several models is better than one of them, and what the models should differ in.

    python bench/soups.py RESULTS.jsonl --data FOLDER --glue FOLDER [--sets goemotions,movies,mnli,cola] [--threads 1]
                          [--report]

On the development sets of `bench/sweep.py`, 1,000 training rows each, judged on up to 1,000 of the set's test rows
after 40, 80 and 160 steps: single models of three seeds, and soups of two and three models with other orders of rows,
and of three learning rates. The two middle layers are tuned at their usual rate, then all layers.

Every training is a line of the results file; started again, it goes on with what is missing. `--report` runs nothing.
Last line: one flat JSON object, soup minus the mean of single models, in points averaged over the sets.
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
from frostline.tasks.splits import divide
from frostline.training.execution import Settings, execute
from frostline.training.half_products import usual_precision
from frostline.training.shared_inputs import SharedInputs

STEPS = 160
TEST = 1_000
SINGLE = [f"seed {seed}" for seed in range(3)]
SOUPS = {"three orders": (1.0, 1.0, 1.0), "two orders": (1.0, 1.0), "three rates": (1.0, 0.5, 2.0)}


def wanted(depth: int) -> list[tuple[Plan, str]]:
    """Return the plans with the names of what is trained of each; of all layers, only one soup."""
    middle, full = Plan.span(depth // 2, depth // 2 + 1, depth), Plan.full(depth)
    return [*((middle, arm) for arm in (*SINGLE, *SOUPS)), *((full, arm) for arm in (*SINGLE, *list(SOUPS)[:1]))]


def recipe_of(plan: Plan, arm: str, encoder: Encoder, given: argparse.Namespace) -> Recipe:
    """Return the recipe of a plan: of one seed, or a soup."""
    return Recipe(
        schedule="averaged", steps=STEPS, select="last", learning_rate=learning_rate_for(plan, encoder.width),
        head_rate=head_rate_for(encoder.width), head="average", max_length=MAX_LENGTH, threads=given.threads,
        precision=usual_precision(encoder.device), soup=SOUPS.get(arm), seed=SINGLE.index(arm) if arm in SINGLE else 0,
    )  # fmt: skip


def run(name: str, encoder: Encoder, given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield the lines of one set that are missing."""
    done = {(line["set"], line["plan"], line["arm"]) for line in lines(given.results)}
    missing = [(plan, arm) for plan, arm in wanted(encoder.depth) if (name, plan_name(plan), arm) not in done]
    if not missing:
        return
    whole = task_of(name, given, 0)
    test = divide(whole.test, TEST, seed=0, purpose="soups test")[1] if len(whole.test) > TEST else whole.test
    task = replace(whole, validation=test, test=None)
    shared = SharedInputs.for_recipe(encoder, task, recipe_of(*missing[0], encoder, given))
    for plan, arm in missing:
        started = time.process_time()
        with computing(threads=given.threads):
            recipe = recipe_of(plan, arm, encoder, given)
            tuned = execute(shared, plan, recipe, settings=Settings(test=False, is_short=True))
        history = [[step["step"], round(step["validation_accuracy"], 4)] for step in tuned.trained.history]
        seconds = round(time.process_time() - started, 1)
        yield {"set": name, "plan": plan_name(plan), "arm": arm, "history": history, "seconds": seconds}


def report(recorded: list[dict]) -> dict[str, float]:
    """Print a row for each plan, arm and number of steps; return the figures of the last line."""
    values = {(line["plan"], line["arm"], line["set"], step): 100 * accuracy
              for line in recorded for step, accuracy in line["history"]}  # fmt: skip
    sets = list(dict.fromkeys(line["set"] for line in recorded))
    plans = dict.fromkeys(line["plan"] for line in recorded)
    marks = sorted({key[-1] for key in values})
    print(f"| plan | trained | steps | {' | '.join(sets)} | mean |\n|{'---|' * (len(sets) + 4)}")
    figures = {}
    for plan, mark in ((plan, mark) for plan in plans for mark in marks):
        of_seeds = [[values.get((plan, arm, name, mark)) for arm in SINGLE] for name in sets]
        if any(None in own for own in of_seeds):
            continue
        single = [statistics.mean(own) for own in of_seeds]
        print(row([plan, "one model, mean of three seeds", mark, *single, statistics.mean(single)]))
        for arm in SOUPS:
            soup = [values.get((plan, arm, name, mark)) for name in sets]
            if None not in soup:
                print(row([plan, arm, mark, *soup, statistics.mean(soup)]))
                gain = statistics.mean(own - other for own, other in zip(soup, single, strict=True))
                figures[f"{plan}_{arm}_{mark}_minus_single"] = round(gain, 2)
    return figures


def row(cells: list[object]) -> str:
    """Return cells as a row of a table."""
    return "| " + " | ".join(f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def main() -> None:
    """Run what is missing, then report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    for name in ("data", "glue"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--sets", default=",".join(DEVELOPMENT))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if not given.report:
        encoder = load_encoder(None)
        for name in given.sets.split(","):
            for line in run(name, encoder, given):
                with given.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(line["set"], line["plan"], line["arm"], line["history"], f"{line['seconds']:.0f} s", flush=True)
    print(json.dumps(report(lines(given.results))))


if __name__ == "__main__":
    main()
