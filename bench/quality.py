"""The quality of plans on real tasks, next to full fine-tuning with the Hugging Face Trainer on the same rows.

    python bench/quality.py GLUE RESULTS.jsonl [--rows 2000] [--seeds 3] [--threads 1]

The embedded default encoder on CoLA, SST-2 and MRPC: at most so many training rows (a sample of its own for every seed,
the same for every arm), three epochs, the last one kept, judged on the official dev set. Learning rates are fixed by
the kind of plan. Every finished trial is a line of the results file; started again, it goes on with what is missing.
The last thing printed is the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
import warnings
from pathlib import Path

import torch
import trainer
import transformers

import frostline
from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import make_head
from frostline.encoders.loading import load_encoder
from frostline.plans.parsing import read_plan, with_method
from frostline.records import Recipe
from frostline.tasks import Task, load_task
from frostline.tasks.splits import sample
from frostline.training.loop import judge, order_of_rows

TASKS = ("cola", "sst2", "mrpc")
RATES = {"full": 1e-4, "some layers": 3e-4, "LoRA": 1e-3, "head only": 1e-3}
ARMS = {
    "Trainer, full": None,
    "full": "full",
    "top-2": "top-k:k=2",
    "best-down": "best-down:layers=2",
    "best-up": "best-up",
    "Fisher top-2": "fisher-top-k:k=2",
    "LoRA, all layers": "layers=1-6",
    "head only": "layers=none",
}


def few_rows(name: str, glue: Path, rows: int, seed: int) -> Task:
    """The task with a sample of its training rows, the same for every arm of a seed."""
    task = load_task(f"glue/{name}", data_dir=glue)
    return dataclasses.replace(task, train=sample(task.train, rows, seed=seed), validation=None)


def with_frostline(encoder: Encoder, task: Task, arm: str, recipe: Recipe) -> dict[str, object]:
    words = ARMS[arm]
    scores = None
    if words.startswith(("best", "fisher")):
        wanted = ("fisher",) if words.startswith("fisher") else ("variability",)
        scores = frostline.measure(encoder, task, scores=wanted, similarity=False, uncertainty=False, seed=recipe.seed)
    plan = read_plan(words, encoder, task, scores=scores, seed=recipe.seed)
    kind = "full" if plan.embeddings else "some layers" if plan.layers else "head only"
    if arm.startswith("LoRA"):
        plan, kind = with_method(plan, "lora"), "LoRA"
    recipe = dataclasses.replace(recipe, learning_rate=RATES[kind])
    tuned = frostline.tune(encoder, task, plan=plan, recipe=recipe)
    return {"plan": str(plan), **tuned.metrics["test"], "trainable": tuned.trained.audit.trainable}


def with_trainer(encoder: Encoder, task: Task, recipe: Recipe) -> dict[str, object]:
    """Full fine-tuning as the Trainer does it: the same rows, order, rate, schedule, head and dropout."""
    stock = trainer.stock_classifier(encoder, len(task.label_names))
    head = make_head(encoder, labels=len(task.label_names), seed=recipe.seed)
    stock.load_state_dict(head.stock.state_dict(), strict=False)
    order = [
        int(row)
        for epoch in range(recipe.epochs)
        for row in order_of_rows(len(task.train), seed=recipe.seed, epoch=epoch)
    ]
    tokens = {name: encoder.tokenize(split.texts, split.pairs) for name, split in task.splits.items()}
    collate = trainer.collator(encoder, tokens["train"], task.train.labels)
    # The order holds all epochs.
    trainer.train(
        stock, order, collate, rate=recipe.learning_rate, epochs=1, batch=recipe.batch, warmup=recipe.warmup,
        seed=recipe.seed, in_order=True,
    )  # fmt: skip
    collate = trainer.collator(encoder, tokens["test"], task.test.labels)
    logits = trainer.logits(stock, len(task.test), collate)
    found = judge(logits, torch.tensor(task.test.labels), task.metrics, task.kind)
    return {"plan": "full", **found, "trainable": sum(value.numel() for value in stock.parameters())}


def table(lines: list[dict[str, object]]) -> str:
    """Mean and standard deviation over seeds, in points."""
    out = ["| plan | " + " | ".join(TASKS) + " |", "|---|" + "---|" * len(TASKS)]
    for arm in ARMS:
        cells = []
        for task in TASKS:
            values = [100 * line["value"] for line in lines if line["arm"] == arm and line["task"] == task]
            spread = statistics.stdev(values) if len(values) > 1 else float("nan")
            cells.append(f"{statistics.mean(values):.1f} ± {spread:.1f} ({len(values)})" if values else "")
        out.append(f"| {arm} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def main() -> None:
    """Run what is missing, then print the table."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    done = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    for seed in range(given.seeds):
        for name in TASKS:
            task = None
            for arm in ARMS:
                if any((line["arm"], line["task"], line["seed"]) == (arm, name, seed) for line in done):
                    continue
                task = task or few_rows(name, given.glue, given.rows, seed)
                recipe = Recipe(learning_rate=RATES["full"], select="last", threads=given.threads, seed=seed)
                encoder, started = load_encoder(), time.perf_counter()
                try:
                    run = with_trainer if ARMS[arm] is None else with_frostline
                    scores = run(encoder, task, recipe) if run is with_trainer else run(encoder, task, arm, recipe)
                except Exception as error:  # a plan that this task does not allow is a result too
                    scores = {"plan": f"none: {error}", task.metrics[0]: None}
                line = {"arm": arm, "task": name, "seed": seed, "value": scores[task.metrics[0]], **scores}
                line["seconds"] = round(time.perf_counter() - started, 1)
                done.append(line)
                with given.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(f"{name} seed {seed} {arm}: {line['value']} {line['plan']} {line['seconds']} s", flush=True)
    print(table([line for line in done if line["value"] is not None]))


if __name__ == "__main__":
    main()
