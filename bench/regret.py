"""How good the choice of `run` is: against every plan of a sweep, and against five rules that were fixed beforehand.

    python bench/regret.py SWEEP.jsonl CHOICES.jsonl --data FOLDER [--encoders FOLDER] [--cases sst5,trec6@gte-small]
                           [--seed 0] [--threads 1] [--report]

The sweep is recorded by `bench/sweep.py`; the search has the same training, validation and test rows as it, without its
proof and its refit. The rules are: tune all layers, the last two, the upper half, the middle two, or the head alone on
the last layer, each at the best of its three learning rates on validation and with the head that the search has; and,
as it is done without any tool, all layers with the family's own head. *Regret* is the accuracy of the plan that is the
best of the sweep on one half of the test rows, minus that of the choice, on the other half, both ways: judged on the
rows that it was found on, the best of 25 plans would look better than it is.

Cases of one data source are averaged before the mean and its interval are computed, because they are not independent.
Seconds are those that the process was computing, so that what else the machine does has little weight.

Every choice is a line of the choices file; started again, it goes on with what is missing. `--report` runs nothing.
Last line: one flat JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import transformers
from scipy import stats
from sweep import CASES, MAX_LENGTH, OWN_HEAD, RULES, best_rates, decode, encode, lines, plan_name, rule_plans, task_of

import frostline
from frostline.encoders.loading import load_encoder
from frostline.records import Recipe
from frostline.search.run_result import Run
from frostline.trials.results import decode_outputs

COMPARED = (*RULES, OWN_HEAD)
_HALVINGS = 20


def choose(case: str, given: argparse.Namespace) -> dict[str, object]:
    """Return what `run` chooses, its predictions on the test rows, and what the choice cost."""
    data, _, name = case.partition("@")
    encoder = load_encoder(str(given.encoders / name) if name else None)
    task = task_of(data, given, given.seed)
    recipe = Recipe(threads=given.threads, max_length=MAX_LENGTH, seed=given.seed)
    with tempfile.TemporaryDirectory() as folder:
        computing, wall = time.process_time(), time.perf_counter()
        run = frostline.run(encoder, task, output=Path(folder) / "run", recipe=recipe, proof=False, refit=False)
        share = (time.process_time() - computing) / (time.perf_counter() - wall)
    return {"case": case, "depth": encoder.depth, **facts(run, share), "labels": encode(task.test.labels)}


def facts(run: Run, share: float) -> dict[str, object]:
    """Return the choice of a run as a line of the file; `share` of the time on the clock was computing."""
    laps = {name: round(share * seconds, 1) for name, seconds in run.record.seconds.items()}
    test = decode_outputs(run.tuned.outputs["test"], "classification")
    return {
        "plan": plan_name(run.tuned.plan),
        "rate": run.tuned.recipe.learning_rate,
        "steps": run.tuned.recipe.steps,
        "accuracy": run.tests[0].metrics["accuracy"],
        "validation": run.chosen.result.metrics["validation"]["accuracy"],
        "predictions": encode(test),
        "laps": laps,
        "seconds": round(sum(seconds for name, seconds in laps.items() if name != "testing"), 1),
    }


def rules(depth: int) -> dict[str, str]:
    """Return the names of the rules' plans in the sweep."""
    return {**{name: plan_name(plan) for name, plan in rule_plans(depth).items()}, OWN_HEAD: OWN_HEAD}


class Compared:
    """The choice of one case next to the sweep and the rules."""

    def __init__(self, choice: Mapping[str, object], sweep: Sequence[dict]) -> None:
        """Compare a line of the choices file with the sweep's lines of the same case."""
        self.choice = choice
        self.labels = decode(choice["labels"])
        self.own = self._is_right(choice["predictions"])
        self.best = {line["plan"]: self._is_right(line["predictions"]["test"]) for line in best_rates(sweep)}
        self.rules = rules(choice["depth"])
        self.share = choice["seconds"] / sum(line["seconds"] for line in sweep)

    def _is_right(self, predictions: str) -> np.ndarray:
        return (decode(predictions) == self.labels).astype(float)

    def minus_rule(self, name: str) -> float:
        """Return the accuracy of the choice minus that of a rule, in points."""
        return 100 * float((self.own - self.best[self.rules[name]]).mean())

    def regret(self, seed: int = 0) -> float:
        """Return what the choice loses against the plan that is best on other test rows, in points."""
        right = np.stack([values for plan, values in self.best.items() if plan != OWN_HEAD])
        gaps = []
        for number in range(_HALVINGS):
            order = np.random.default_rng([seed, number]).permutation(len(self.labels))
            halves = np.array_split(order, 2)
            for found_on, judged_on in (halves, halves[::-1]):
                best = right[int(right[:, found_on].mean(axis=1).argmax())]
                gaps.append(float((best - self.own)[judged_on].mean()))
        return 100 * statistics.mean(gaps)


def over_sources(values: Mapping[str, float]) -> tuple[float, float, float]:
    """Return the mean over data sources and its 95% t-interval, the cases of a source averaged first."""
    sources: dict[str, list[float]] = {}
    for case, value in values.items():
        sources.setdefault(case.partition("@")[0], []).append(value)
    means = [statistics.mean(own) for own in sources.values()]
    mean = statistics.mean(means)
    if len(means) < 2:
        return mean, float("-inf"), float("inf")
    half = stats.t.ppf(0.975, len(means) - 1) * statistics.stdev(means) / len(means) ** 0.5
    return mean, mean - half, mean + half


def report(compared: Mapping[str, Compared]) -> dict[str, float]:
    """Print a row per case and the means over sources; return the figures of the last line."""
    minus = " | ".join(f"minus {name}" for name in COMPARED)
    print(f"| case | choice | accuracy | {minus} | regret | share of the sweep |")
    print("|---|---|---|" + "---|" * (len(COMPARED) + 2))
    for case, one in compared.items():
        gaps = " | ".join(f"{one.minus_rule(name):+.1f}" for name in one.rules)
        accuracy = 100 * one.own.mean()
        print(f"| {case} | {one.choice['plan']} | {accuracy:.1f} | {gaps} | {one.regret():+.1f} | {one.share:.1%} |")
    figures = {
        f"minus_{name.replace(',', '').replace(' ', '_')}": {
            case: one.minus_rule(name) for case, one in compared.items()
        }
        for name in COMPARED
    }
    figures |= {"regret": {case: one.regret() for case, one in compared.items()}}
    last: dict[str, float] = {}
    for name, values in figures.items():
        mean, low, high = over_sources(values)
        print(f"{name.replace('_', ' ')}: {mean:+.2f} ({low:+.2f} to {high:+.2f}) points, over sources")
        last |= {name: round(mean, 3), f"{name}_low": round(low, 3), f"{name}_high": round(high, 3)}
    last["share_of_sweep"] = round(statistics.mean(one.share for one in compared.values()), 4)
    last["largest_share"] = round(max(one.share for one in compared.values()), 4)
    return last


def main() -> None:
    """Choose where no choice is recorded, then report on the cases whose sweep is complete."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("choices", type=Path)
    for name in ("data", "glue", "encoders"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    cases = given.cases.split(",")
    done = {line["case"] for line in lines(given.choices)}
    for case in [] if given.report else [case for case in cases if case not in done]:
        line = choose(case, given)
        with given.choices.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(case, line["plan"], f"{100 * line['accuracy']:.1f}", f"{line['seconds']:.0f} s", line["laps"], flush=True)
    sweep = lines(given.sweep)
    compared = {}
    for choice in lines(given.choices):
        own = [line for line in sweep if line["case"] == choice["case"]]
        swept = {line["plan"] for line in own}
        if choice["case"] in cases and {*rules(choice["depth"]).values()} <= swept:
            compared[choice["case"]] = Compared(choice, own)
    print(json.dumps(report(compared) if compared else {}))


if __name__ == "__main__":
    main()
