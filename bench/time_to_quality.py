"""How much sooner `frostline run` has a model as good as full fine-tuning with its best rate known in advance.

    python bench/time_to_quality.py GLUE RESULTS.jsonl [--rows 2000] [--tasks sst2,mrpc,mnli] [--seeds 0,1,2]
                                    [--steps N] [--threads 1] [--report]

The embedded default encoder on SST-2, MRPC and MNLI. A seed draws the rows to train on, half as many to choose on and
as many to test on (of MRPC, the rows that are left), and everything random in training.

`frostline run` comes first, with its proof, its refit and its tests; it is judged by the validation scores of its
trials, each when it ends. The Hugging Face Trainer then takes as many steps as the longest trial of full fine-tuning in
the run or as the longest of the plan that was chosen, whichever is more, with linear decay after warm-up; a head alone
does not count, because it takes eight times as many steps as other plans. On the first seed the Trainer tries four
learning rates; the one that is best on validation there is taken as known, for all seeds, and the time of the others is
not counted. It is judged ten times on its way, and its clock is stopped meanwhile.

The goal is 99% of the best of these ten scores. A run that misses it goes on with the Trainer: its whole time and the
Trainer's are added. Seconds are those that the process spent computing, so that what else the machine does has little
weight; with one thread they are the wall clock's on a machine with nothing else to do, which are in the file too.

Every finished training is a line of the results file; started again, it goes on with what is missing. Other tasks can
run at the same time, with the same file. Lines with other `--rows`, `--steps` or `--threads` are left out. Last line:
one flat JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import ceil, inf
from pathlib import Path

import numpy as np
import torch
import trainer
import transformers
from noting import Noting
from pairs import Line, Pair, figures, table, until
from rows import every_row

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.records import Plan, Recipe, TrialResult, TrialSpec
from frostline.records.budget import Budget
from frostline.report.pages import write_report
from frostline.search.planning import Inputs
from frostline.search.run import Search
from frostline.tasks import Task, load_task
from frostline.tasks.splits import divide
from frostline.training.loop import judge

TASKS, SEEDS = ("sst2", "mrpc", "mnli"), (0, 1, 2)
RATES = (5e-5, 1e-4, 2e-4, 4e-4)  # of the Trainer
EVALUATIONS = 10


class Clock:
    """Seconds of computing, and of the wall clock, since it was made, without those while it was paused."""

    def __init__(self) -> None:
        self._started, self._paused = self._now(), np.zeros(2)

    @property
    def seconds(self) -> dict[str, float]:
        """Return the seconds of both kinds."""
        computing, wall = self._now() - self._started - self._paused
        return {"seconds": round(computing, 3), "wall": round(wall, 3)}

    @property
    def paused(self) -> float:
        """Return the seconds of computing while it was paused."""
        return round(self._paused[0], 3)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock for a while."""
        before = self._now()
        yield
        self._paused += self._now() - before

    @staticmethod
    def _now() -> np.ndarray:
        return np.array([time.process_time(), time.perf_counter()])


def small_task(name: str, glue: Path, rows: int, seed: int) -> Task:
    """Return the task with splits that a seed draws."""
    task = load_task(f"glue/{name}", data_dir=glue)
    every = every_row(task)
    to_choose, to_test = rows // 2, min(rows, len(every) - rows - rows // 2)
    rest, test = divide(every, to_test, seed=seed, purpose="time test")
    rest, validation = divide(rest, to_choose, seed=seed, purpose="time validation")
    train = divide(rest, rows, seed=seed, purpose="time train")[1] if len(rest) > rows else rest
    return dataclasses.replace(task, train=train, validation=validation, test=test)


@dataclass(frozen=True)
class Case:
    """A task with the rows and the randomness of a seed."""

    task: Task
    encoder: Encoder
    seed: int

    @property
    def metric(self) -> str:
        """Return the metric that models are judged by."""
        return self.task.metrics[0]

    def score(self, model: object, split: str) -> float:
        """Return how good a stock model is; texts of like length go together, which saves padding."""
        rows = self.task.splits[split]
        tokens = self.encoder.tokenize(rows.texts, rows.pairs)
        order = np.argsort(tokens.lengths, kind="stable")
        collate = trainer.collator(self.encoder, tokens, rows.labels)
        logits = trainer.logits(model, len(rows), lambda places: collate([int(order[place]) for place in places]))
        labels = torch.tensor(rows.labels)[torch.as_tensor(order)]
        return judge(logits, labels, self.task.metrics, self.task.kind)[self.metric]


def with_frostline(case: Case, *, most_steps: int | None, threads: int) -> Line:
    """Return the scores of the trials of a run and when each ended, and what the whole run took."""
    curve: list[tuple[float, float]] = []
    longest: dict[str, int] = {}  # steps, by plan

    def note(spec: TrialSpec, result: TrialResult) -> None:
        if result.status != "done" or spec.recipe.rows != "train":
            return
        plan = str(spec.plan.identity())
        longest[plan] = max(longest.get(plan, 0), spec.recipe.steps or 0)  # a solved head has none
        curve.append((clock.seconds["seconds"], result.metrics["validation"][case.metric]))

    recipe = Recipe(threads=threads, seed=case.seed, steps=most_steps)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FROSTLINE_CACHE"] = f"{folder}/cache"  # nothing is there from before
        clock = Clock()
        run = Search(
            inputs=Inputs(encoder=case.encoder, task=case.task, recipe=recipe, budget=Budget()),
            folder=Path(folder, "run"),
            make_executor=lambda materials, context: Noting(context, note),
            finish=write_report,
        ).run()
        spent = clock.seconds
        del os.environ["FROSTLINE_CACHE"]
    plan, full = run.tuned.plan, Plan.full(case.encoder.depth)
    of_choice, of_full = (longest.get(str(each.identity()), 0) for each in (plan, full))
    return {
        **spent,
        "curve": curve,
        "plan": plan.name,
        "steps_of_choice": of_choice,
        "steps_of_full": of_full,
        "steps": max(of_full, of_choice) if plan.layers else of_full or of_choice,
        "validation": run.chosen.result.metrics["validation"][case.metric],
        "test": run.tuned.metrics["test"][case.metric],
        "stages": dict(run.record.seconds),
    }


class Judging(transformers.TrainerCallback):
    """Scores the model ten times while it is trained, with the clock paused, and keeps the best weights."""

    def __init__(self, score: Callable[[object], float], steps: int) -> None:
        """Prepare to score a model that will be trained for so many steps."""
        self.curve: list[tuple[float, float]] = []
        self.spent: dict[str, float] = {}
        self._score = score
        self._at = {ceil(steps * number / EVALUATIONS) for number in range(1, EVALUATIONS + 1)}

    def on_train_begin(self, *given: object, **more: object) -> None:
        """Start the clock; loading and preparing are not counted."""
        self.clock = Clock()

    def on_step_end(self, arguments: object, state: object, control: object, model: object, **more: object) -> None:
        """Score the model where it is due."""
        if state.global_step not in self._at:
            return
        self.spent = self.clock.seconds
        with self.clock.pause():
            value = self._score(model)
            if value > max((before for _, before in self.curve), default=-inf):
                self.best_weights = {name: weights.clone() for name, weights in model.state_dict().items()}
            self.curve.append((self.spent["seconds"], value))
            model.train()


def with_trainer(case: Case, *, rate: float, steps: int) -> Line:
    """Return the scores of full fine-tuning on its way and what it took, and the test score of its best model."""
    train = case.task.train
    model = trainer.stock_classifier(case.encoder, len(case.task.label_names), seed=case.seed)
    collate = trainer.collator(case.encoder, case.encoder.tokenize(train.texts, train.pairs), train.labels)
    judging = Judging(lambda model: case.score(model, "validation"), steps)
    trainer.train(model, range(len(train)), collate, rate=rate, steps=steps, seed=case.seed, callback=judging)
    model.load_state_dict(judging.best_weights)
    return {
        **judging.spent,
        "judging": judging.clock.paused,
        "curve": judging.curve,
        "steps": steps,
        "validation": max(value for _, value in judging.curve),
        "test": case.score(model, "test"),
    }


class Results:
    """The lines of the results file that were measured with the same settings."""

    def __init__(self, path: Path, settings: Line) -> None:
        """Read the lines that are there."""
        self._path, self._settings = path, settings
        every = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.lines = [line for line in every if settings.items() <= line.items()]

    def find(self, **wanted: object) -> list[Line]:
        """Return the lines with these values."""
        return [line for line in self.lines if wanted.items() <= line.items()]

    def measure(self, what: Line, measure: Callable[[], Line]) -> Line:
        """Return the line of a training, which is measured and recorded if it is missing."""
        if before := self.find(**what):
            return before[0]
        line = {**what, **self._settings, **measure()}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.lines.append(line)
        shown = " ".join(str(value) for value in what.values())
        print(f"{shown}: {line['seconds']:.0f} s, {line['validation']:.4f} {line['test']:.4f}", flush=True)
        return line

    def rates(self, task: str, seed: int) -> tuple[float, ...]:
        """Return the Trainer's learning rates of a seed: all on the first one, then the best."""
        return RATES if seed == SEEDS[0] else (self.best_rate(task),)

    def best_rate(self, task: str) -> float:
        """Return the rate that is best on validation on the first seed; of equally good ones, the soonest there."""
        grid = self.find(task=task, seed=SEEDS[0], arm="trainer")
        if len(grid) < len(RATES):
            raise SystemExit(f"{task}: seed {SEEDS[0]} comes first: it finds the Trainer's best learning rate")
        best = max(grid, key=lambda line: (line["validation"], -until(line, line["validation"])))
        return best["rate"]


def measure_all(case: Case, name: str, results: Results, given: argparse.Namespace) -> None:
    """Measure the run, then the Trainer with as many steps."""
    of = {"task": name, "seed": case.seed}
    search = partial(with_frostline, case, most_steps=given.steps, threads=given.threads)
    run = results.measure({**of, "arm": "frostline"}, search)
    for rate in results.rates(name, case.seed):
        train = partial(with_trainer, case, rate=rate, steps=run["steps"])
        results.measure({**of, "arm": "trainer", "rate": rate}, train)


def pairs_of(results: Results) -> list[Pair]:
    """Return what can be compared: tasks and seeds of which all is there."""
    pairs = []
    for task, seed in product(TASKS, SEEDS):
        runs = results.find(task=task, seed=seed, arm="frostline")
        if runs and len(results.find(task=task, seed=SEEDS[0], arm="trainer")) == len(RATES):
            best = results.find(task=task, seed=seed, arm="trainer", rate=results.best_rate(task))
            pairs += [Pair(run, full) for run, full in zip(runs, best, strict=False)]
    return pairs


def report(results: Results) -> dict[str, float | None]:
    """Print what every rate of the Trainer reaches and a row per task and seed; return the figures of the last line."""
    for task in TASKS:
        if grid := results.find(task=task, seed=SEEDS[0], arm="trainer"):
            reached = ", ".join(f"{line['rate']:g}: {100 * line['validation']:.1f}" for line in grid)
            print(f"{task}, the Trainer's best validation score by rate: {reached}")
    pairs = pairs_of(results)
    if pairs:
        print(table(pairs))
    return figures(pairs) if pairs else {}


def main() -> None:
    """Measure what is missing, then report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--steps", type=int, help="most steps of a plan; by default, the run decides")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    settings = {"rows": given.rows, "most_steps": given.steps, "threads": given.threads}
    results = Results(given.results, settings)
    cases = product(map(int, given.seeds.split(",")), given.tasks.split(","))
    for seed, name in [] if given.report else cases:
        case = Case(small_task(name, given.glue, given.rows, seed), load_encoder(), seed)
        measure_all(case, name, results, given)
    print(json.dumps(report(Results(given.results, settings))))


if __name__ == "__main__":
    main()
