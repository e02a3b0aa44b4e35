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
import tempfile
import time
import warnings
from pathlib import Path

import torch
import transformers

from frostline.checkpoint import load_encoder
from frostline.encoder import Encoder
from frostline.heads import make_head
from frostline.measurement import measure
from frostline.plans import read_plan, with_method
from frostline.records import Recipe
from frostline.tasks import Task, load_task
from frostline.tasks.splits import sample
from frostline.train import judge, order_of_rows
from frostline.tuning import tune

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
        scores = measure(encoder, task, scores=wanted, similarity=False, uncertainty=False, seed=recipe.seed)
    plan = read_plan(words, encoder, task, scores=scores, seed=recipe.seed)
    kind = "full" if plan.embeddings else "some layers" if plan.layers else "head only"
    if arm.startswith("LoRA"):
        plan, kind = with_method(plan, "lora"), "LoRA"
    recipe = dataclasses.replace(recipe, learning_rate=RATES[kind])
    tuned = tune(encoder, task, plan=plan, recipe=recipe)
    return {"plan": str(plan), **tuned.metrics["test"], "trainable": tuned.trained.audit.trainable}


def with_trainer(encoder: Encoder, task: Task, recipe: Recipe) -> dict[str, object]:
    """Full fine-tuning as the Trainer does it: the same rows, order, rate, schedule, head and dropout."""
    config = type(encoder.config).from_dict(encoder.config.to_dict())
    config.num_labels = len(task.label_names)
    stock = transformers.AutoModelForSequenceClassification.from_config(config)
    stock.base_model.load_state_dict(encoder.model.state_dict(), strict=False)
    head = make_head(encoder, labels=len(task.label_names), seed=recipe.seed)
    stock.load_state_dict(head.stock.state_dict(), strict=False)
    tokens, labels = encoder.tokenize(task.train.texts, task.train.pairs), task.train.labels
    order = [row for epoch in range(recipe.epochs) for row in order_of_rows(len(labels), seed=recipe.seed, epoch=epoch)]

    def padded(rows: list[int], source, answers) -> dict[str, torch.Tensor]:
        some = source.take(rows)
        longest = int(some.lengths.max())
        ids = torch.full((len(rows), longest), encoder.tokenizer.pad_token_id)
        types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
        for place, (start, length) in enumerate(zip(some.starts, some.lengths, strict=True)):
            ids[place, :length] = torch.as_tensor(some.ids[start : start + length])
            types[place, :length] = torch.as_tensor(some.types[start : start + length])
            mask[place, :length] = 1
        out = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        return out | ({} if answers is None else {"labels": torch.tensor([answers[row] for row in rows])})

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=recipe.batch,
            num_train_epochs=1,  # the order above holds all epochs
            learning_rate=recipe.learning_rate,
            lr_scheduler_type="linear",
            warmup_steps=round(recipe.warmup * len(order) / recipe.batch),
            weight_decay=0.0,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            seed=recipe.seed,
        )
        trainer = InOrder(
            model=stock,
            args=arguments,
            train_dataset=[int(row) for row in order],
            data_collator=lambda rows: padded(rows, tokens, labels),
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    unseen = encoder.tokenize(task.test.texts, task.test.pairs)
    stock.eval()
    with torch.no_grad():
        rows = range(len(unseen))
        logits = [
            stock(**padded(list(rows[start : start + 64]), unseen, None)).logits for start in range(0, len(rows), 64)
        ]
    found = judge(torch.cat(logits), torch.tensor(task.test.labels), task.metrics, task.kind)
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
                    found = run(encoder, task, recipe) if run is with_trainer else run(encoder, task, arm, recipe)
                except Exception as error:  # a plan that this task does not allow is a result too
                    found = {"plan": f"none: {error}", task.metrics[0]: None}
                line = {"arm": arm, "task": name, "seed": seed, "value": found[task.metrics[0]], **found}
                line["seconds"] = round(time.perf_counter() - started, 1)
                done.append(line)
                with given.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(f"{name} seed {seed} {arm}: {line['value']} {line['plan']} {line['seconds']} s", flush=True)
    print(table([line for line in done if line["value"] is not None]))


if __name__ == "__main__":
    main()
