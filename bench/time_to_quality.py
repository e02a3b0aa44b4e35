"""How long it takes until a model is as good as one that was fine-tuned in full.

    python bench/time_to_quality.py GLUE RESULTS.jsonl [--rows 4000] [--threads 2] [--report]

The embedded default encoder on SST-2, MRPC and MNLI. The goal is 99% of the validation score that the Hugging Face
Trainer's full fine-tuning reaches with the best of its learning rates. For the Trainer, and for PEFT's LoRA with the
Trainer, the clock runs through the grid of learning rates, judging after every epoch, until the goal is met. For
Frostline it runs through all of `frostline run`: measuring, racing every plan, testing and saving. A logistic
regression on mean-pooled last-layer states is what one does in a hurry. All on the same rows and threads, in one
process.

Every finished arm is a line of the results file; started again, it goes on with what is missing. Last line: one flat
JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import trainer
import transformers
from sklearn.linear_model import LogisticRegression

from frostline.checkpoint import load_encoder
from frostline.encoder import Encoder
from frostline.records import Recipe
from frostline.running import run
from frostline.tasks import Task, load_task
from frostline.tasks.splits import divide
from frostline.train import judge

TASKS = ("sst2", "mrpc", "mnli")
FULL_RATES, LORA_RATES = (5e-5, 1e-4, 2e-4), (5e-4, 1e-3, 2e-3)
EPOCHS, GOAL = 3, 0.99


def small_task(name: str, glue: Path, rows: int) -> Task:
    """So many rows to learn from where there are as many, 600 to choose on, 1,000 to test on."""
    task = load_task(f"glue/{name}", data_dir=glue)
    every = task.test if name == "mnli" else task.train
    rest, test = divide(every, min(1000, len(every) // 4), seed=0, purpose="time test")
    rest, validation = divide(rest, min(600, len(rest) // 4), seed=0, purpose="time validation")
    train = rest if len(rest) <= rows else divide(rest, rows, seed=0, purpose="time train")[1]
    return dataclasses.replace(task, train=train, validation=validation, test=test)


class Clock(transformers.TrainerCallback):
    """Judges on validation after every epoch, and counts the seconds until then."""

    def __init__(self, judged: Callable[[object], float], before: float) -> None:
        self.judged, self.before, self.started = judged, before, time.perf_counter()
        self.found: list[tuple[float, float]] = []  # seconds, value

    def on_epoch_end(self, args: object, state: object, control: object, model: object = None, **more: object) -> None:
        value = self.judged(model)
        model.train()
        self.found.append((self.before + time.perf_counter() - self.started, value))


class Arms:
    """The ways to a model for one task."""

    def __init__(self, task: Task, encoder: Encoder, threads: int) -> None:
        self.task, self.encoder, self.threads = task, encoder, threads
        self.tokens = {name: encoder.tokenize(split.texts, split.pairs) for name, split in task.splits.items()}

    def value(self, model: object, split: str) -> float:
        rows = self.task.splits[split]
        collate = trainer.collator(self.encoder, self.tokens[split], rows.labels)
        found = judge(
            trainer.logits(model, len(rows), collate), torch.tensor(rows.labels), self.task.metrics, "classification"
        )
        return found[self.task.metrics[0]]

    def with_trainer(self, rates: tuple[float, ...], *, lora: bool) -> dict[str, object]:
        """The learning curve over the whole grid, and the test score of its best model on validation."""
        curve: list[tuple[float, float]] = []
        tests: list[tuple[float, float]] = []
        spent = 0.0
        for rate in rates:
            model = trainer.stock_classifier(self.encoder, len(self.task.label_names))
            if lora:
                from peft import LoraConfig, TaskType, get_peft_model

                model = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16))
            clock = Clock(lambda model: self.value(model, "validation"), spent)
            collate = trainer.collator(self.encoder, self.tokens["train"], self.task.train.labels)
            started = time.perf_counter()
            trainer.train(model, range(len(self.task.train)), collate, rate=rate, epochs=EPOCHS, callback=clock)
            spent += time.perf_counter() - started
            curve += clock.found
            tests.append((clock.found[-1][1], self.value(model, "test")))
        return {"curve": curve, "seconds": spent, "validation": max(tests)[0], "test": max(tests)[1]}

    def with_frostline(self) -> dict[str, object]:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["FROSTLINE_CACHE"] = f"{folder}/cache"  # nothing is there from before
            started = time.perf_counter()
            found = run(self.encoder, self.task, output=f"{folder}/run", recipe=Recipe(threads=self.threads))
            seconds = time.perf_counter() - started
            del os.environ["FROSTLINE_CACHE"]
        metric = self.task.metrics[0]
        return {
            "seconds": seconds,
            "validation": found.tuned.metrics["validation"][metric],
            "test": found.tuned.metrics["test"][metric],
            "plan": str(found.tuned.plan),
            "stages": dict(found.seconds),
        }

    def with_regression(self) -> dict[str, object]:
        """Mean-pooled last-layer states and scikit-learn, as in a few lines of one's own."""
        started = time.perf_counter()
        model = self.encoder.model
        states = {}
        for name, split in self.task.splits.items():
            collate = trainer.collator(self.encoder, self.tokens[name], split.labels)
            pieces = []
            with torch.no_grad():
                for start in range(0, len(split), 64):
                    given = collate(range(start, min(len(split), start + 64)))
                    given.pop("labels")
                    mask = given["attention_mask"][..., None]
                    pieces.append((model(**given).last_hidden_state * mask).sum(1) / mask.sum(1))
            states[name] = torch.cat(pieces).numpy()
        fitted = LogisticRegression(max_iter=2000).fit(states["train"], np.asarray(self.task.train.labels))
        out = {"seconds": time.perf_counter() - started}
        for name in ("validation", "test"):
            logits = torch.tensor(fitted.decision_function(states[name]))
            logits = torch.stack([-logits, logits], 1) if logits.dim() == 1 else logits
            labels = torch.tensor(self.task.splits[name].labels)
            out[name] = judge(logits, labels, self.task.metrics, "classification")[self.task.metrics[0]]
        return out


def first_time(line: dict, goal: float) -> float:
    """Seconds until the goal is met; infinite if it never is."""
    if "curve" not in line:
        return line["seconds"] if line["validation"] >= goal else float("inf")
    return next((seconds for seconds, value in line["curve"] if value >= goal), float("inf"))


def report(done: list[dict]) -> None:
    """A table by task, and the mean ratios as the last line."""
    ratios: dict[str, list[float]] = {"vs_trainer_full": [], "vs_peft_lora": []}
    quality: dict[str, list[float]] = {}
    print("| task | arm | seconds until the goal | seconds in all | validation | test |")
    print("|---|---|---|---|---|---|")
    for task in TASKS:
        arms = {line["arm"]: line for line in done if line["task"] == task}
        if "trainer_full" not in arms or "frostline" not in arms:
            continue
        goal = GOAL * max(value for _, value in arms["trainer_full"]["curve"])
        for name, line in arms.items():
            until = first_time(line, goal)
            shown = "never" if until == float("inf") else f"{until:.0f}"
            print(
                f"| {task} | {name} | {shown} | {line['seconds']:.0f} | {100 * line['validation']:.1f} | "
                f"{100 * line['test']:.1f} |"
            )
            quality.setdefault(f"test_{name}", []).append(line["test"])
        ours = first_time(arms["frostline"], goal)
        for key, arm in (("vs_trainer_full", "trainer_full"), ("vs_peft_lora", "peft_lora")):
            if arm in arms:
                theirs = first_time(arms[arm], goal)
                theirs = arms[arm]["seconds"] if theirs == float("inf") else theirs
                ratios[key].append(theirs / ours)
    last = {
        key: round(statistics.geometric_mean(values), 3) for key, values in ratios.items() if all(values) and values
    }
    print(json.dumps({**last, **{key: round(100 * statistics.mean(values), 2) for key, values in quality.items()}}))


def main() -> None:
    """Run what is missing, then report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    done = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    for name in TASKS if not given.report else ():
        arms = Arms(small_task(name, given.glue, given.rows), load_encoder(), given.threads)
        ways = {
            "frostline": arms.with_frostline,
            "trainer_full": lambda arms=arms: arms.with_trainer(FULL_RATES, lora=False),
            "peft_lora": lambda arms=arms: arms.with_trainer(LORA_RATES, lora=True),
            "logistic_regression": arms.with_regression,
        }
        for arm, way in ways.items():
            if any((line["task"], line["arm"]) == (name, arm) for line in done):
                continue
            line = {"task": name, "arm": arm, "rows": given.rows, "threads": given.threads, **way()}
            done.append(line)
            with given.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{name} {arm}: {line['seconds']:.0f} s, {line['validation']:.4f} {line['test']:.4f}", flush=True)
    report(done)


if __name__ == "__main__":
    main()
