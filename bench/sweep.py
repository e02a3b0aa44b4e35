"""What every plan is worth: each one trained to the end, with three learning rates, on data that no rule was tuned on.

    python bench/sweep.py RESULTS.jsonl --data FOLDER [--glue FOLDER] [--encoders FOLDER] [--cases sst5,trec6@gte-small]
                          [--seed 0] [--threads 1] [--only-rules] [--report]

A case is a data set, and an encoder after '@' unless it is the embedded default. Development sets (goemotions with one
label a text, mnli, cola, movies) are for choosing rules, the others for judging them; of trec6, cr and subj some trials
were seen before the rules of the race were fixed. Of each set 1,000 rows are for
training, 300 for choosing the length and the rate, up to 2,000 for testing, rows of one group together. A plan trains
on the averaged schedule at half, once and twice its usual learning rate, the head at its own one, until twice as many
steps bring neither a better metric nor a lower loss, at least 160 and at most 640; the rate that is best on validation
counts. A head alone is solved. All plans of a case have the head that `run` chooses by probes; full fine-tuning is also
there with the family's own head, as people have it who do not choose.

Every finished trial is a line of the results file, with its predictions; started again, it goes on with what is
missing. `--only-rules` runs the plans of the five rules of `bench/regret.py` alone. `--report` prints the best plans of
each case. Last line: one flat JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import transformers
from rows import labelled_rows

from frostline.encoders.loading import load_encoder
from frostline.kernels.device import computing
from frostline.plans.learning_rates import head_rate_for, learning_rate_for
from frostline.records import Plan, Recipe, TrialResult, TrialSpec
from frostline.search.head_choice import POOLINGS, choose_head
from frostline.search.prior import usual_plans
from frostline.tasks import Task, load_task
from frostline.tasks.splits import divide
from frostline.training.half_products import usual_precision
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, Materials
from frostline.trials.results import make_spec
from frostline.trials.run_missing import by_shared_states
from frostline.trials.run_trial import run_trial

TRAIN, VALIDATION, TEST = 1_000, 300, 2_000
FACTORS = (0.5, 1.0, 2.0)  # of a plan's usual learning rate
STEPS = 640
MAX_LENGTH = 128
PATIENCE = 1  # evaluation, after twice as many steps, from 160 on
JUDGING = ("subj", "sst5", "tweeteval_emotion", "banking77", "cr", "trec6")
WITH_GTE = ("trec6", "sst5", "banking77")
DEVELOPMENT = ("goemotions", "mnli", "cola", "movies")
# The search was changed after it was judged on the first six, and judged again on the others.
JUDGING_AGAIN = (
    *(f"{name}@gte-small" for name in WITH_GTE),
    "3i4k_ko@albert-kor-base",
    "germeval18_fine",
    "thucnews_zh@albert-tiny-chinese",
)
CASES = (*JUDGING, *JUDGING_AGAIN)
RULES = ("full", "last two", "upper half", "middle two", "head alone")
OWN_HEAD = "full, own head"  # the name of full fine-tuning with the family's own head
_FIRST_DIGIT = 48  # predictions are one character a row, from '0' on


def grid(depth: int) -> list[Plan]:
    """Return the plans of a sweep: single layers, neighbours, upper and lower parts, heads alone, LoRA."""
    step = 1 if depth <= 6 else 2  # every layer of a shallow encoder, every other one of a deep one
    single = [Plan.span(layer, layer, depth) for layer in range(1, depth + 1, step)]
    double = [Plan.span(layer - 1, layer, depth) for layer in range(2, depth + 1, step)]
    upper = [Plan.whole_or_span(layer, depth, depth, depth=depth) for layer in range(1, depth - 1, step)]
    low, high = round(0.2 * depth) + 1, round(0.8 * depth)
    middle = [Plan.span(low, high, depth), Plan.span(depth // 4 + 1, depth - depth // 4, depth)]
    lower = [Plan.span(1, depth // 2, depth), *(Plan.span(1, layer, layer) for layer in range(depth // 2, depth, step))]
    heads = [Plan(layers=(), head=layer) for layer in range(depth // 2, depth + 1, step)]
    lora = [replace(Plan.span(1, depth, depth), method="lora")]
    plans = [*single, *double, *upper, *middle, *lower, *usual_plans(depth, goal="smallest"), *heads, *lora]
    return list({str(plan.identity()): plan for plan in plans}.values())


def rule_plans(depth: int) -> dict[str, Plan]:
    """Return the plans of five rules that need no search."""
    centre = depth // 2 + 1
    plans = (
        Plan.full(depth),
        Plan.span(depth - 1, depth, depth),
        Plan.span(centre, depth, depth),
        Plan.span(centre - 1, centre, depth),
        Plan(layers=(), head=depth),
    )
    return dict(zip(RULES, plans, strict=True))


def task_of(name: str, given: argparse.Namespace, seed: int) -> Task:
    """Return a set with small splits of its own, judged by accuracy."""
    if name == "movies":
        task = load_task(name)
        pool = task.train
    elif name in DEVELOPMENT[1:3]:
        task = load_task(f"glue/{name}", data_dir=given.glue)
        pool = labelled_rows(task)
    else:
        task = one_label(given.data) if name == "goemotions" else file_of(given.data, name)
        pool = task.train
    test = task.test if (given.data / f"{name}_test.csv").exists() else None
    if test is None:
        pool, test = divide(pool, min(TEST, len(pool) // 3), seed=seed, purpose="sweep test")
    elif len(test) > TEST:
        _, test = divide(test, TEST, seed=seed, purpose="sweep test")
    rest, validation = divide(pool, VALIDATION, seed=seed, purpose="sweep validation")
    _, train = divide(rest, TRAIN, seed=seed, purpose="sweep train")
    return replace(task, name=name, train=train, validation=validation, test=test, metrics=("accuracy",), more_tests={})


def file_of(data: Path, name: str) -> Task:
    """Return the task of a set's CSV files."""
    both = data / f"{name}_test.csv"
    if both.exists():
        return load_task(data / f"{name}_train.csv", validation=both, test=both)
    return load_task(data / f"{name}_all.csv", splits=False)


def one_label(data: Path) -> Task:
    """Return the rows of GoEmotions that have one label, of labels with 100 rows or more."""
    import pandas as pd

    rows = pd.read_csv(data / "goemotions_multilabel_train.csv")
    rows = rows[~rows["label"].str.contains("|", regex=False)]
    rows = rows.groupby("label").filter(lambda group: len(group) >= 100)
    return load_task(rows[["text", "label"]], splits=False)


@dataclass(frozen=True)
class Trial:
    """A plan with a head, at a factor of its usual learning rate."""

    name: str
    plan: Plan
    factor: float
    head: str


class Case:
    """One set and encoder, with what was recorded of them."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        self.name, self.results = name, given.results
        data, _, encoder = name.partition("@")
        self.source = str(given.encoders / encoder) if encoder else None
        self.encoder = load_encoder(self.source)
        self.task = task_of(data, given, given.seed)
        self.recipe = Recipe(
            schedule="averaged",
            steps=STEPS,
            patience=PATIENCE,
            threads=given.threads,
            max_length=MAX_LENGTH,
            precision=usual_precision(self.encoder.device),
            seed=given.seed,
        )
        self.done = {(line["plan"], line["factor"]) for line in lines(given.results) if line["case"] == name}

    def run(self, *, only_rules: bool = False) -> None:
        """Run the trials that are missing."""
        shared = SharedInputs.for_recipe(self.encoder, self.task, self.recipe)
        with computing(threads=self.recipe.threads):
            head = choose_head(self.encoder, self.task, shared.pass_over("train", poolings=POOLINGS))
        materials = Materials(
            encoders={self.encoder.revision: self.source},
            tasks={self.task.fingerprint: self.task},
            predictions=("validation", "test"),
        )
        context = Context(materials=materials, encoders={self.encoder.revision: self.encoder})
        depth = self.encoder.depth
        plans = rule_plans(depth).values() if only_rules else grid(depth)
        wanted = [
            *(Trial(plan_name(plan), plan, factor, head) for plan in plans for factor in FACTORS if plan.layers),
            *(Trial(plan_name(plan), plan, 1.0, head) for plan in plans if not plan.layers),
            *(Trial(OWN_HEAD, Plan.full(depth), factor, "family") for factor in FACTORS),
        ]
        trials = {self._spec(shared, one).id: one for one in wanted if (one.name, one.factor) not in self.done}
        specs = {self._spec(shared, one).id: self._spec(shared, one) for one in trials.values()}
        if specs:
            context.share(next(iter(specs.values())), shared)
        for spec in by_shared_states(specs.values()):
            started = time.process_time()
            result = run_trial(context, spec)
            self._write(trials[spec.id], result, time.process_time() - started)

    def _spec(self, shared: SharedInputs, trial: Trial) -> TrialSpec:
        plan, width = trial.plan, self.encoder.width
        recipe = replace(self.recipe, head=trial.head, learning_rate=trial.factor * learning_rate_for(plan, width))
        if plan.layers:
            return make_spec(shared, plan, replace(recipe, head_rate=head_rate_for(width)))
        return make_spec(shared, plan, replace(recipe, schedule="solved", steps=None, epochs=1))

    def _write(self, trial: Trial, result: TrialResult, seconds: float) -> None:
        line = {
            "case": self.name,
            "plan": trial.name,
            "spec": trial.plan.to_json(),
            "head": trial.head,
            "precision": self.recipe.precision,
            "factor": trial.factor,
            "status": result.status,
            "reason": result.reason,
            "metrics": {split: values["accuracy"] for split, values in result.metrics.items()},
            "history": [
                [step["step"], round(step["validation_accuracy"], 4), round(step["validation_loss"], 4)]
                for step in result.history
            ],
            "predictions": {split: encode(values) for split, values in result.predictions.items()},
            "seconds": round(seconds, 1),
        }
        with self.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(self.name, trial.name, trial.factor, line["reason"], f"{seconds:.0f} s", flush=True)


def encode(classes: Iterable[float]) -> str:
    """Return classes as one character a row."""
    return "".join(chr(_FIRST_DIGIT + int(value)) for value in classes)


def decode(characters: str) -> np.ndarray:
    """Return the classes that `encode` wrote."""
    return np.array([ord(character) - _FIRST_DIGIT for character in characters])


def plan_name(plan: Plan) -> str:
    """Return the plan as it is printed, with its method."""
    return plan.name if plan.method == "full" else f"{plan.name} {plan.method}"


def lines(path: Path) -> list[dict]:
    """Return the recorded lines."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def best_rates(recorded: list[dict]) -> Iterator[dict]:
    """Yield of each plan and case the trial whose rate is best on validation."""
    by_plan: dict[tuple[str, str], list[dict]] = {}
    for line in recorded:
        if line["status"] == "done":
            by_plan.setdefault((line["case"], line["plan"]), []).append(line)
    for trials in by_plan.values():
        yield max(trials, key=lambda line: (line["metrics"]["validation"], -min(step[2] for step in line["history"])))


def report(recorded: list[dict], cases: list[str]) -> dict[str, float]:
    """Print the best plans of each case on the test rows; return figures of the last line."""
    best = list(best_rates(recorded))
    figures: dict[str, float] = {}
    for case in cases:
        own = sorted((line for line in best if line["case"] == case), key=lambda line: -line["metrics"]["test"])
        if own:
            seconds = sum(line["seconds"] for line in recorded if line["case"] == case)
            figures[f"{case}_seconds"] = round(seconds, 1)
            print(f"\n{case}: {len(own)} plans, {seconds:.0f} s of computing")
            for line in own:
                print(f"  {100 * line['metrics']['test']:5.1f}  {line['plan']}  (factor {line['factor']:g})")
    return figures


def main() -> None:
    """Run what is missing, or report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    for name in ("data", "glue", "encoders"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only-rules", action="store_true")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    np.random.seed(given.seed)
    cases = given.cases.split(",")
    for name in [] if given.report else cases:
        Case(name, given).run(only_rules=given.only_rules)
    print(json.dumps(report(lines(given.results), cases)))


if __name__ == "__main__":
    main()
