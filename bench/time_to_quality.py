"""How long it takes until a model is as good as one that was fine-tuned in full.

    python bench/time_to_quality.py GLUE RESULTS.jsonl [--rows 4000] [--threads 1] [--tasks sst2,mrpc]
                                    [--arms trainer_full,frostline] [--report]

The embedded default encoder on SST-2, MRPC and MNLI. The goal is 99% of the validation score that the Hugging Face
Trainer's full fine-tuning reaches at the end of an epoch with the best of its learning rates. The clock runs until a
model meets the goal: for the Trainer, and for PEFT's LoRA with the Trainer, through the grid of learning rates, judging
after every epoch; for Frostline through `frostline run`, from measuring on, judging after every trial of its race. The
whole way is given too: all learning rates against all of `frostline run`, testing and saving included. A logistic
regression on mean-pooled last-layer states is what one does in a hurry. All on the same rows and threads.

Seconds are those that the process spent computing, so that what else the machine does has little weight; with one
thread they are the wall clock's on a machine with nothing else to do. The wall clock's are in the results file too.

Every finished arm, and for the Trainer every learning rate, is a line of the results file; started again, it goes on
with what is missing. Last line: one flat JSON object.
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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
import trainer
import transformers
from noting import Noting
from rows import labelled_rows
from sklearn.linear_model import LogisticRegression

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.records import Recipe, TrialResult, TrialSpec
from frostline.records.budget import Budget
from frostline.report.pages import write_report
from frostline.search.planning import Inputs
from frostline.search.run import Search
from frostline.tasks import Task, load_task
from frostline.tasks.splits import divide
from frostline.training.loop import judge

TASKS = ("sst2", "mrpc", "mnli")
FULL_RATES, LORA_RATES = (5e-5, 1e-4, 2e-4), (5e-4, 1e-3, 2e-3)
EPOCHS, GOAL = 3, 0.99
# Rows to choose on and to test on. On 600 rows accuracy has a standard error of 2 points, and the best of nine
# evaluations is the luckiest: more are taken where there are more.
HELD_OUT = {"mrpc": (600, 825)}


def small_task(name: str, glue: Path, rows: int) -> Task:
    """So many rows to learn from where there are as many, and 2,000 each to choose on and to test on."""
    task = load_task(f"glue/{name}", data_dir=glue)
    every = labelled_rows(task)
    to_choose, to_test = HELD_OUT.get(name, (2000, 2000))
    rest, test = divide(every, to_test, seed=0, purpose="time test")
    rest, validation = divide(rest, to_choose, seed=0, purpose="time validation")
    train = rest if len(rest) <= rows else divide(rest, rows, seed=0, purpose="time train")[1]
    return dataclasses.replace(task, train=train, validation=validation, test=test)


class Clock:
    """Seconds of computing, and of the wall clock, since it was made."""

    def __init__(self) -> None:
        self._computing, self._wall = time.process_time(), time.perf_counter()

    @property
    def computing(self) -> float:
        return round(time.process_time() - self._computing, 3)

    @property
    def wall(self) -> float:
        return round(time.perf_counter() - self._wall, 3)


class Judging(transformers.TrainerCallback):
    """Judges on validation after every epoch, and takes down when that was."""

    def __init__(self, judged: Callable[[object], float]) -> None:
        self.judged, self.clock = judged, Clock()
        self.curve: list[tuple[float, float]] = []  # seconds, value

    def on_epoch_end(self, args: object, state: object, control: object, model: object = None, **more: object) -> None:
        value = self.judged(model)
        model.train()
        self.curve.append((self.clock.computing, value))


class Arms:
    """The ways to a model for one task."""

    def __init__(self, task: Task, encoder: Encoder, threads: int) -> None:
        self.task, self.encoder, self.threads = task, encoder, threads
        self.tokens = {name: encoder.tokenize(split.texts, split.pairs) for name, split in task.splits.items()}

    def value(self, model: object, split: str) -> float:
        rows = self.task.splits[split]
        collate = trainer.collator(self.encoder, self.tokens[split], rows.labels)
        reached = judge(
            trainer.logits(model, len(rows), collate), torch.tensor(rows.labels), self.task.metrics, "classification"
        )
        return reached[self.task.metrics[0]]

    def with_trainer(self, rate: float, *, lora: bool) -> dict[str, object]:
        """The learning curve with one learning rate, and the test score of the model at its end."""
        model = trainer.stock_classifier(self.encoder, len(self.task.label_names))
        if lora:
            from peft import LoraConfig, TaskType, get_peft_model

            model = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16))
        judging = Judging(lambda model: self.value(model, "validation"))
        collate = trainer.collator(self.encoder, self.tokens["train"], self.task.train.labels)
        trainer.train(model, range(len(self.task.train)), collate, rate=rate, epochs=EPOCHS, callback=judging)
        return {
            "curve": judging.curve,
            "seconds": judging.clock.computing,
            "wall": judging.clock.wall,
            "validation": judging.curve[-1][1],
            "test": self.value(model, "test"),
        }

    def with_frostline(self) -> dict[str, object]:
        """All of `frostline run`, and the best model of its race after every trial."""
        curve: list[tuple[float, float]] = []
        with tempfile.TemporaryDirectory() as folder:
            os.environ["FROSTLINE_CACHE"] = f"{folder}/cache"  # nothing is there from before
            clock = Clock()

            def note(spec: TrialSpec, result: TrialResult) -> None:
                if result.status == "done":
                    curve.append((clock.computing, result.metrics["validation"][self.task.metrics[0]]))

            recipe = Recipe(threads=self.threads)
            inputs = Inputs(encoder=self.encoder, task=self.task, recipe=recipe, budget=Budget())
            reached = Search(
                inputs=inputs,
                folder=Path(folder, "run"),
                make_executor=lambda materials, context: Noting(context, note),
                finish=write_report,
            ).run()
            seconds, wall = clock.computing, clock.wall
            del os.environ["FROSTLINE_CACHE"]
        metric = self.task.metrics[0]
        return {
            "curve": curve,
            "seconds": seconds,
            "wall": wall,
            "validation": reached.tuned.metrics["validation"][metric],
            "test": reached.tuned.metrics["test"][metric],
            "plan": str(reached.tuned.plan),
            "stages": dict(reached.record.seconds),
        }

    def with_regression(self) -> dict[str, object]:
        """Mean-pooled last-layer states and scikit-learn, as in a few lines of one's own."""
        clock = Clock()
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
        out = {"seconds": clock.computing, "wall": clock.wall}
        for name in ("validation", "test"):
            logits = torch.tensor(fitted.decision_function(states[name]))
            logits = torch.stack([-logits, logits], 1) if logits.dim() == 1 else logits
            labels = torch.tensor(self.task.splits[name].labels)
            out[name] = judge(logits, labels, self.task.metrics, "classification")[self.task.metrics[0]]
        return out


# By arm, the runs that it consists of.
WAYS: Mapping[str, Mapping[str, Callable[[Arms], dict[str, object]]]] = {
    "frostline": {"": Arms.with_frostline},
    "trainer_full": {f"{rate:g}": partial(Arms.with_trainer, rate=rate, lora=False) for rate in FULL_RATES},
    "peft_lora": {f"{rate:g}": partial(Arms.with_trainer, rate=rate, lora=True) for rate in LORA_RATES},
    "logistic_regression": {"": Arms.with_regression},
}


def joined(lines: list[dict]) -> dict[str, object]:
    """One arm: its learning rates one after the other, and the one that is best on validation at its end."""
    curve, spent = [], 0.0
    for line in lines:
        curve += [(spent + seconds, value) for seconds, value in line.get("curve", [])]
        spent += line["seconds"]
    best = max(lines, key=lambda line: line["validation"])
    curve = curve or [(spent, best["validation"])]
    return {"curve": curve, "seconds": spent, "validation": best["validation"], "test": best["test"]}


def first_time(arm: Mapping[str, object], goal: float) -> float:
    """Seconds until the goal is met; infinite if it never is."""
    return next((seconds for seconds, value in arm["curve"] if value >= goal), float("inf"))


def report(done: list[dict]) -> None:
    """A table by task, and the mean ratios as the last line."""
    ratios: dict[str, list[float]] = {}
    quality: dict[str, list[float]] = {}
    print("| task | arm | seconds until the goal | seconds in all | validation | test |")
    print("|---|---|---|---|---|---|")
    for task in TASKS:
        mine = [line for line in done if line["task"] == task]
        arms = {name: joined(lines) for name, runs in WAYS.items()
                if len(lines := [line for line in mine if line["arm"] == name]) == len(runs)}  # fmt: skip
        if not {"trainer_full", "frostline"} <= arms.keys():
            continue
        goal = GOAL * max(value for _, value in arms["trainer_full"]["curve"])
        for name, arm in arms.items():
            until = first_time(arm, goal)
            shown = "never" if until == float("inf") else f"{until:.0f}"
            print(
                f"| {task} | {name} | {shown} | {arm['seconds']:.0f} | {100 * arm['validation']:.1f} | "
                f"{100 * arm['test']:.1f} |"
            )
            quality.setdefault(f"test_{name}", []).append(100 * arm["test"])
        ours = arms["frostline"]
        for key, name in (("vs_trainer_full", "trainer_full"), ("vs_peft_lora", "peft_lora")):
            if name in arms:
                # Who never meets the goal has spent all its time; for Frostline that is no time to compare.
                theirs = min(first_time(arms[name], goal), arms[name]["seconds"])
                ratios.setdefault(key, []).append(theirs / first_time(ours, goal))
                ratios.setdefault(f"whole_{key}", []).append(arms[name]["seconds"] / ours["seconds"])
    last = {key: round(float(np.exp(np.mean(np.log(values)))), 3) if all(values) else 0.0
            for key, values in ratios.items()}  # fmt: skip
    print(json.dumps({**last, **{key: round(statistics.mean(values), 2) for key, values in quality.items()}}))


def main() -> None:
    """Run what is missing, then report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--arms", default=",".join(WAYS))
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    done = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    for name in given.tasks.split(",") if not given.report else ():
        arms = Arms(small_task(name, given.glue, given.rows), load_encoder(), given.threads)
        for arm in given.arms.split(","):
            for run_of, way in WAYS[arm].items():
                if any((line["task"], line["arm"], line["run"]) == (name, arm, run_of) for line in done):
                    continue
                line = {"task": name, "arm": arm, "run": run_of, "rows": len(arms.task.train), "threads": given.threads}
                line |= way(arms)
                done.append(line)
                with given.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                shown = f"{line['seconds']:.0f} s ({line['wall']:.0f}), {line['validation']:.4f} {line['test']:.4f}"
                print(f"{name} {arm} {run_of}: {shown}", flush=True)
    report(done)


if __name__ == "__main__":
    main()
