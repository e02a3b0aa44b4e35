"""How good and how fast `run` is next to SetFit 1.2 and to a logistic regression on embeddings.

    python bench/setfit.py RESULTS.jsonl --data FOLDER [--cases sst5,trec6] [--sizes 1000,64,8] [--arms setfit]
                           [--seed 0] [--threads 1] [--test-rows 2000] [--python PYTHON] [--report]

All ways start from the embedded encoder and use the same labelled rows. With size 1000 they are the 1,000 training and
300 validation rows of `bench/sweep.py`; with a smaller size, so many rows of every class, on sets where every class has
as many. `run` chooses on the validation rows, which are carved from the few as for any file without them, and trains
the choice again on all rows (its refit), so SetFit and the regression train on all of them from the start.

- frostline: all of `run` but its proof.
- regression: mean-pooled, normalised states of the last layer; C is chosen by cross-validation.
- setfit: SetFit's own defaults, with 5 iterations, and with 20 (setfit20) on two sets.

SetFit runs in an environment of its own, which `make bench-setfit` installs. Seconds are those that a process spent
computing, from the loaded encoder to the saved model (of the regression: to the fitted one); imports, other than the
few that `run` makes itself, and testing are left out. The wall clock's are in the results file too.

Every finished arm is a line of the results file, with its predictions; started again, it goes on with what is missing.
`--report` runs nothing. Last line: one flat JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import transformers
from regret import over_sources
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sweep import JUDGING, MAX_LENGTH, TEST, TRAIN, encode, file_of, lines, plan_name, task_of
from threadpoolctl import threadpool_limits
from time_to_quality import Clock

import frostline
from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.records import Recipe
from frostline.tasks import Task
from frostline.tasks.assemble import assemble
from frostline.tasks.splits import divide, sample
from frostline.trials.results import decode_outputs

HERE = Path(__file__).parent
ITERATIONS = {"setfit": 5, "setfit20": 20}
ARMS = ("frostline", "regression", *ITERATIONS)
SETS_WITH_20 = ("trec6", "sst5")
PENALTIES = (0.1, 1.0, 10.0, 100.0)  # C of the regression
BATCH = 64


def sized_task(name: str, size: int, given: argparse.Namespace) -> Task | None:
    """Return the sweep's task, or one with `size` rows of every class; None if a class has fewer."""
    whole = task_of(name, given, given.seed)
    test = whole.test
    if len(test) > given.test_rows:
        _, test = divide(test, given.test_rows, seed=given.seed, purpose="setfit test")
    if size == TRAIN:
        return replace(whole, test=test)
    tested = set(whole.test.texts)
    pool = file_of(given.data, name).train
    pool = pool.take(row for row, text in enumerate(pool.texts) if text not in tested)
    if min(Counter(pool.labels).values()) < size:
        return None
    few = sample(pool, size * len(whole.label_names), balanced=True, seed=given.seed)
    task = replace(whole, train=few, validation=None, test=test)
    return assemble(task, protocol="held-out", seed=given.seed, metric="accuracy")


def labelled(task: Task) -> tuple[list[str], list[int]]:
    """Return the texts and classes of the training and validation rows."""
    return [*task.train.texts, *task.validation.texts], [*task.train.labels, *task.validation.labels]


def with_frostline(encoder: Encoder, task: Task, given: argparse.Namespace) -> dict[str, object]:
    """Return what `run` predicts for the test rows, and what it took."""
    recipe = Recipe(threads=given.threads, max_length=MAX_LENGTH, seed=given.seed)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FROSTLINE_CACHE"] = f"{folder}/cache"  # nothing is there from before
        clock = Clock()
        run = frostline.run(encoder, task, output=Path(folder, "run"), recipe=recipe, proof=False)
        spent = clock.seconds
    without_testing = spent["wall"] - run.record.seconds["testing"]
    return {
        "predictions": decode_outputs(run.tuned.outputs["test"], "classification"),
        "seconds": spent["seconds"] * without_testing / spent["wall"],
        "wall": without_testing,
        "plan": plan_name(run.tuned.plan),
        "steps": run.tuned.recipe.steps,
        "laps": run.record.seconds,
    }


def with_regression(encoder: Encoder, task: Task, given: argparse.Namespace) -> dict[str, object]:
    """Return what a logistic regression on embeddings predicts for the test rows, and what it took."""
    texts, labels = labelled(task)
    clock = Clock()
    folds = StratifiedKFold(5, shuffle=True, random_state=given.seed)
    fitted = GridSearchCV(LogisticRegression(max_iter=2000), {"C": PENALTIES}, cv=folds)
    fitted.fit(embed(encoder, texts), labels)
    spent = clock.seconds
    return {"predictions": fitted.predict(embed(encoder, task.test.texts)), **spent, **fitted.best_params_}


def embed(encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
    """Return the mean-pooled, normalised states of the last layer; texts of similar length share a batch."""
    order = np.argsort([len(text) for text in texts])
    embeddings = np.empty((len(texts), encoder.width), dtype=np.float32)
    for rows in np.split(order, range(BATCH, len(order), BATCH)):
        batch = encoder.tokenizer(
            [texts[row] for row in rows], padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt"
        )
        with torch.no_grad():
            states = encoder.model(**batch).last_hidden_state
        summed = (states * batch["attention_mask"][..., None]).sum(1)
        embeddings[rows] = torch.nn.functional.normalize(summed, dim=-1)  # a sum and a mean have the same direction
    return embeddings


def with_setfit(encoder: Encoder, task: Task, given: argparse.Namespace, iterations: int) -> dict[str, object]:
    """Return what SetFit predicts for the test rows, and what it took in its own environment."""
    texts, labels = labelled(task)
    case = {
        "encoder": str(encoder.folder),
        "texts": texts,
        "labels": labels,
        "test_texts": task.test.texts,
        "iterations": iterations,
        "max_length": MAX_LENGTH,
        "seed": given.seed,
        "threads": given.threads,
    }
    alone = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        case_file, result_file = Path(folder, "case.json"), Path(folder, "result.json")
        case_file.write_text(json.dumps(case), encoding="utf-8")
        # -P: beside the worker is this file, which would be imported as SetFit.
        command = [given.python.absolute(), "-P", "-W", "ignore", HERE / "setfit_worker.py", case_file, result_file]
        subprocess.run(command, check=True, cwd=folder, env={**os.environ, **alone})
        return json.loads(result_file.read_text(encoding="utf-8"))


def run_arm(arm: str, encoder: Encoder, task: Task, given: argparse.Namespace) -> dict[str, object]:
    """Return the results of one arm, its predictions as a string."""
    if arm in ITERATIONS:
        result = with_setfit(encoder, task, given, ITERATIONS[arm])
    else:
        result = {"frostline": with_frostline, "regression": with_regression}[arm](encoder, task, given)
    predictions = np.asarray(result["predictions"], dtype=int)
    return {
        **result,
        "accuracy": float((predictions == np.asarray(task.test.labels)).mean()),
        "predictions": encode(predictions),
        "labels": encode(task.test.labels),
        **{name: round(result[name], 1) for name in ("seconds", "wall")},
    }


def run_missing(given: argparse.Namespace, cases: Sequence[str], sizes: Sequence[int], arms: Sequence[str]) -> None:
    """Run the arms that are missing in the results file."""
    encoder = load_encoder()
    done = {(line["case"], line["size"], line["arm"], line["seed"]) for line in lines(given.results)}
    for size in sizes:
        for case in cases:
            own = [arm for arm in arms if arm != "setfit20" or case in SETS_WITH_20]
            missing = [arm for arm in own if (case, size, arm, given.seed) not in done]
            task = sized_task(case, size, given) if missing else None
            if task is None:
                continue
            facts = {"case": case, "size": size, "seed": given.seed, "rows": len(labelled(task)[0])}
            for arm in missing:
                line = {**facts, "arm": arm, "threads": given.threads, **run_arm(arm, encoder, task, given)}
                with given.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(case, size, arm, f"{100 * line['accuracy']:.1f}", f"{line['seconds']:.0f} s", flush=True)


def report(recorded: Sequence[dict], cases: Sequence[str], sizes: Sequence[int]) -> dict[str, float]:
    """Print accuracies and seconds of every set and size, and their means; return the figures of the last line."""
    print(f"| set | rows | {' | '.join(ARMS)} | {' | '.join(f'{arm}, seconds' for arm in ARMS)} |")
    print("|---|---|" + "---|" * (2 * len(ARMS)))
    by_size = {size: {case: {line["arm"]: line for line in recorded if (line["case"], line["size"]) == (case, size)}
                      for case in cases} for size in sizes}  # fmt: skip
    for by_case in by_size.values():
        for case, by_arm in by_case.items():
            if by_arm:
                accuracies = [f"{100 * by_arm[arm]['accuracy']:.1f}" if arm in by_arm else "" for arm in ARMS]
                seconds = [f"{by_arm[arm]['seconds']:.0f}" if arm in by_arm else "" for arm in ARMS]
                rows = next(iter(by_arm.values()))["rows"]
                print(f"| {case} | {rows:,} | {' | '.join([*accuracies, *seconds])} |")
    last: dict[str, float] = {}
    for size, by_case in by_size.items():
        for arm in ARMS[1:]:
            last |= compared(arm, size, by_case)
    return last


def compared(arm: str, size: int, by_case: Mapping[str, Mapping[str, dict]]) -> dict[str, float]:
    """Print and return how an arm compares with Frostline over the sets where both are: accuracy and seconds."""
    pairs = {case: (by_arm["frostline"], by_arm[arm]) for case, by_arm in by_case.items()
             if {"frostline", arm} <= by_arm.keys()}  # fmt: skip
    if not pairs:
        return {}
    means = [100 * statistics.mean(pair[side]["accuracy"] for pair in pairs.values()) for side in (0, 1)]
    gaps = {case: 100 * (ours["accuracy"] - theirs["accuracy"]) for case, (ours, theirs) in pairs.items()}
    mean, low, high = over_sources(gaps)
    ratio = statistics.geometric_mean(theirs["seconds"] / ours["seconds"] for ours, theirs in pairs.values())
    print(
        f"size {size}, {len(pairs)} sets: frostline {means[0]:.1f}, {arm} {means[1]:.1f}, difference {mean:+.1f} "
        f"({low:+.1f} to {high:+.1f}); {arm} takes {ratio:.2f} times the seconds"
    )
    return {f"minus_{arm}_{size}": round(mean, 3), f"{arm}_seconds_ratio_{size}": round(ratio, 4)}


def main() -> None:
    """Run what is missing, then report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    for name in ("data", "glue"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--cases", default=",".join(JUDGING))
    parser.add_argument("--sizes", default="1000,64,8")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--test-rows", type=int, default=TEST)
    parser.add_argument("--python", type=Path, default=HERE.parent / "build/setfit-env/bin/python")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    cases, arms = given.cases.split(","), given.arms.split(",")
    sizes = [int(size) for size in given.sizes.split(",")]
    if not given.report and not given.python.exists() and not ITERATIONS.keys().isdisjoint(arms):
        parser.error(f"{given.python} is missing: `make bench-setfit` installs it")
    with threadpool_limits(given.threads):
        if not given.report:
            run_missing(given, cases, sizes, arms)
    recorded = [line for line in lines(given.results) if line["seed"] == given.seed]
    print(json.dumps(report(recorded, cases, sizes)))


if __name__ == "__main__":
    main()
