"""How good the race's choice is, next to an exhaustive sweep: what was lost, and how much time was saved.

    python bench/regret.py GLUE RESULTS.jsonl [--work FOLDER] [--threads 1] [--cases sst2-0,cola-0]
                            [--sweep-only] [--report]

The embedded default encoder on SST-2, CoLA, MRPC and MNLI. All labelled rows of a task are split anew, rows of one
premise together: 1,500 to learn from, 600 to choose on, 1,200 to test on. For each of two seeds, every plan of
a grid is trained in full; then the race of `frostline run` chooses a plan, with the same loop, frozen states and
epochs. Regret is the test score of the grid's best plan on validation minus that of the race's choice. Each layer score
is also followed alone (tune its best layer and the one below), as are three constant policies.

Seconds are those that the process was computing, so that what else the machine does has little weight; run it with one
thread then.

Every finished trial is a line of the results file; started again, it goes on with what is missing. `--report` prints
what the finished cases say and runs nothing; `--sweep-only` leaves the races for later, since they
depend on its rules and the sweep does not. Last line: one flat JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
import transformers
from noting import Noting
from rows import labelled_rows
from scipy.stats import spearmanr

from frostline.costs.cost import Costs
from frostline.costs.workload import make_workload
from frostline.encoders.loading import load_encoder
from frostline.records import Plan, Recipe, TrialResult, TrialSpec
from frostline.records.budget import Budget
from frostline.scoring.measurement import MeasureOptions, measure_layers
from frostline.search.decision import decide
from frostline.search.limits import worth_trying
from frostline.search.planning import Inputs, measure_for_plans
from frostline.search.proposals import propose
from frostline.search.successive_halving import Trials, make_rungs, race, trial_of
from frostline.states.frozen import StatesAt
from frostline.stats.intervals import compare
from frostline.tasks import Task, load_task
from frostline.tasks.metrics import METRICS
from frostline.tasks.splits import divide
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.context import Context, Materials
from frostline.trials.results import make_spec
from frostline.trials.run_missing import by_shared_states
from frostline.trials.store import Store

TASKS = ("sst2", "cola", "mrpc", "mnli")
SEEDS = 2
TRAIN, VALIDATION, TEST = 1500, 600, 1200
FOLLOWED = (
    "variability",
    "cca",
    "rank",
    "information",
    "label_similarity",
    "logme",
    "hscore",
    "fisher",
    "probe.linear",
)


def small_task(name: str, glue: Path, seed: int) -> Task:
    """The task with splits of its own: rows of one premise never part."""
    task = load_task(f"glue/{name}", data_dir=glue)
    rows = labelled_rows(task)
    rest, test = divide(rows, min(TEST, len(rows) - TRAIN - VALIDATION), seed=seed, purpose="regret test")
    rest, validation = divide(rest, VALIDATION, seed=seed, purpose="regret validation")
    _, train = divide(rest, min(TRAIN, len(rest) - len(task.label_names)), seed=seed, purpose="regret train")
    return dataclasses.replace(task, name=f"{name}-{seed}", train=train, validation=validation, test=test)


def grid(depth: int) -> list[Plan]:
    """The plans of the sweep."""
    single = [Plan.span(layer, layer, depth) for layer in range(1, depth + 1)]
    double = [Plan.span(layer - 1, layer, depth) for layer in range(2, depth + 1)]
    upper = [Plan.whole_or_span(layer, depth, depth, depth=depth) for layer in range(1, depth - 1)]
    lower = [Plan.span(1, layer, layer) for layer in range(2, depth)]
    short = [Plan.span(layer, layer, layer) for layer in range(depth // 2, depth)]
    heads = [Plan(layers=(), head=depth), Plan(layers=(), head=depth // 2)]
    others = [dataclasses.replace(Plan.span(1, depth, depth), method=name) for name in ("lora", "norm-and-bias")]
    return [*single, *double, *upper, *lower, *short, *heads, *others]


class Case:
    """One task and seed: its race, its sweep, and what was recorded of them."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        task, seed = name.rsplit("-", 1)
        self.name, self.seed, self.results = name, int(seed), given.results
        self.encoder = load_encoder()
        self.task = small_task(task, given.glue, self.seed)
        self.recipe = Recipe(threads=given.threads, seed=self.seed)
        self.shared = SharedInputs(self.encoder, self.task)
        self.work, self.has_race = given.work, not given.sweep_only
        self.busy = {TrialSpec.from_json(line["spec"]).id: line.get("busy", 1.0)
                     for line in lines(self.results) if line["case"] == name and "spec" in line}  # fmt: skip
        self.about = {line["about"]: line for line in lines(self.results) if line["case"] == name and "about" in line}

    def run(self) -> None:
        """The sweep, then the race; what is recorded already is not run again."""
        folder = self.work / self.name
        with Store(folder / "store.sqlite") as store:
            for spec, result in recorded(self.results, self.name):
                store.put(spec, result)
            known = {spec.id for spec, _ in store}
            clock = Clock()

            def note(spec: TrialSpec, result: TrialResult) -> None:
                busy = clock.lap()
                if spec.id not in known:
                    known.add(spec.id)
                    self.busy[spec.id] = busy
                    line = {"case": self.name, "spec": spec.to_json(), "result": packed(result), "busy": busy}
                    write(self.results, line)
                    print(f"{self.name} {spec.plan} {spec.plan.method}: {shown(result)}", flush=True)

            trials = Trials(shared=self.shared, store=store, executor=Noting(self._context(), note))
            if "sweep" not in self.about:
                self._sweep(trials)
            if "race" not in self.about and self.has_race:
                self._race(trials)

    def _context(self) -> Context:
        """Return what trials are made from, with the test rows among the predictions."""
        materials = Materials(
            encoders={self.encoder.revision: None},
            tasks={self.task.fingerprint: self.task},
            predictions=("validation", "test"),
        )
        context = Context(materials=materials, encoders={self.encoder.revision: self.encoder})
        context.share(make_spec(self.shared, Plan(layers=(), head=self.encoder.depth), self.recipe), self.shared)
        return context

    def _race(self, trials: Trials) -> None:
        started = time.process_time()
        scores = measure_for_plans(Inputs(encoder=self.encoder, task=self.task, recipe=self.recipe, budget=Budget()))
        costs = Costs(self.encoder.config, make_workload(self.shared), self.recipe)
        proposals, _ = worth_trying(propose(scores, costs, seed=self.seed)[0], Budget())
        self.shared.freeze(costs.frozen_at(one.plan for one in proposals), ["train", "validation"])
        before = time.process_time() - started
        asked: dict[str, TrialResult] = {}  # a race does not report a second learning rate that was no better
        outcome = race(_Remembering(**vars(trials), asked=asked), proposals, self.recipe)
        chosen = decide(outcome, self.task, Budget(), depth=self.encoder.depth, seed=self.seed)
        best = decide(outcome, self.task, Budget(goal="best"), depth=self.encoder.depth, seed=self.seed)
        self._note(
            "race",
            chosen=chosen.chosen,
            best=best.chosen,
            trials=sorted(asked),
            before=round(before, 2),
            seconds=round(before + sum(self.busy[trial] * spent(result) for trial, result in asked.items()), 2),
        )

    def _sweep(self, trials: Trials) -> None:
        options = MeasureOptions(scores=FOLLOWED, similarity=False, uncertainty=False, seed=self.seed)
        scores = measure_layers(self.encoder, self.task, options)
        rung = make_rungs(len(self.task.train), self.recipe.epochs)[-1]
        started = time.process_time()
        self.shared.freeze([StatesAt(layer=layer) for layer in range(self.encoder.depth)], ["train", "validation"])
        before = time.process_time() - started
        specs = [trial_of(self.shared, plan, rung, self.recipe) for plan in grid(self.encoder.depth)]
        seconds = sum(self.busy[spec.id] * spent(result) for spec, result in trials.run(by_shared_states(specs)))
        self._note(
            "sweep",
            trials=[spec.id for spec in specs],
            seconds=round(before + seconds, 2),
            scores={name: list(score.values) for name, score in scores.scores.items()},
            better={name: score.better for name, score in scores.scores.items()},
        )

    def _note(self, what: str, **fields: object) -> None:
        self.about[what] = {"case": self.name, "about": what, **fields}
        write(self.results, self.about[what])

    def findings(self) -> dict[str, object] | None:
        """Regrets and rank correlations of this case, in points, or None while it is not finished."""
        if not {"race", "sweep"} <= self.about.keys():
            return None
        trials = {spec.id: (spec, result) for spec, result in recorded(self.results, self.name)}
        sweep = [trials[trial] for trial in self.about["sweep"]["trials"] if trials[trial][1].status == "done"]
        depth, metric = self.encoder.depth, self.task.metrics[0]
        by_plan = {str(spec.plan.identity()): result for spec, result in sweep}
        best = max(sweep, key=lambda one: self.value(one[1], "validation"))[1]
        chosen = trials[self.about["race"]["chosen"]][1]
        labels, groups = self.task.test.labels, self.task.test.groups
        gap = compare(labels, best.predictions["test"], chosen.predictions["test"], metric, groups=groups)
        figures = {
            "regret": gap.value,
            "low": gap.low,
            "high": gap.high,
            "crossed": self.crossed(sweep, chosen),
            "share": self.about["race"]["seconds"] / self.about["sweep"]["seconds"],
            "chosen": str(trials[self.about["race"]["chosen"]][0].plan),
            "best": 100 * self.value(best, "test"),
        }

        def regret_of(plan: Plan) -> float:
            result = by_plan[str(plan.identity())]
            return 100 * (self.value(best, "test") - self.value(result, "test"))

        centre = depth // 2 + 1
        constant = {
            "full": Plan.full(depth),
            "top_2": Plan.span(depth - 1, depth, depth),
            "middle": Plan.span(centre - 1, centre, depth),
        }
        figures |= {f"regret_{name}": regret_of(plan) for name, plan in constant.items()}
        single = [self.value(by_plan[str(Plan.span(n, n, depth).identity())], "test")
                  for n in range(1, depth + 1)]  # fmt: skip
        for name, values in self.about["sweep"]["scores"].items():
            sign = -1 if self.about["sweep"]["better"][name] == "low" else 1
            ranked = [(sign * value, -layer) for layer, value in enumerate(values) if layer and value is not None]
            if not ranked:
                continue
            layer = -max(ranked)[1]
            figures[f"regret_{name}"] = regret_of(
                Plan.span(max(1, layer - 1), layer, depth) if layer > 1 else Plan.span(1, 1, depth)
            )
            figures[f"rank_correlation_{name}"] = float(
                spearmanr([value for value, _ in ranked], [single[-place - 1] for _, place in ranked]).statistic
            )
        return figures

    def crossed(self, sweep: list[tuple[TrialSpec, TrialResult]], chosen: TrialResult) -> float:
        """Regret against the plan that is best on one half of the test rows, judged on the other; both ways."""
        order = np.random.default_rng(self.seed).permutation(len(self.task.test))
        halves = np.array_split(order, 2)
        labels, metric = np.asarray(self.task.test.labels), METRICS[self.task.metrics[0]]

        def on(result: TrialResult, rows: np.ndarray) -> float:
            return metric(labels[rows], np.asarray(result.predictions["test"])[rows])

        gaps = []
        for mine, other in (halves, halves[::-1]):
            best = max(sweep, key=lambda one: on(one[1], mine))[1]
            gaps.append(on(best, other) - on(chosen, other))
        return 100 * statistics.mean(gaps)

    def value(self, result: TrialResult, split: str) -> float:
        return result.metrics[split][self.task.metrics[0]]


class Clock:
    """How much of the wall clock's time this process was computing: with one thread, 1 if nothing else ran."""

    def __init__(self) -> None:
        self._computing, self._wall = time.process_time(), time.perf_counter()

    def lap(self) -> float:
        """The share since the last lap."""
        computing, wall = time.process_time(), time.perf_counter()
        share = (computing - self._computing) / max(1e-6, wall - self._wall)
        self._computing, self._wall = computing, wall
        return round(share, 4)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Remembering(Trials):
    """Trials that remember all results that were asked for."""

    asked: dict[str, TrialResult]

    def run(self, specs: Iterable[TrialSpec], *, keep: bool = False) -> Iterator[tuple[TrialSpec, TrialResult]]:
        for spec, result in super().run(specs, keep=keep):
            self.asked[spec.id] = result
            yield spec, result


def spent(result: TrialResult) -> float:
    """Seconds of a trial without judging it on the test rows."""
    return sum(seconds for what, seconds in result.seconds.items() if what != "testing")


def shown(result: TrialResult) -> str:
    if result.status == "failed":
        return result.reason
    return f"{result.metrics['validation']} {result.metrics['test']} {spent(result):.1f} s"


def packed(result: TrialResult) -> dict[str, object]:
    """The result with a digit per prediction, and without its history."""
    digits = {split: "".join(str(int(value)) for value in values) for split, values in result.predictions.items()}
    return {**result.to_json(), "predictions": digits, "history": [], "versions": {}}


def recorded(path: Path, case: str) -> Iterator[tuple[TrialSpec, TrialResult]]:
    for line in lines(path):
        if line["case"] == case and "spec" in line:
            result = line["result"]
            digits = {split: [float(digit) for digit in values] for split, values in result["predictions"].items()}
            yield TrialSpec.from_json(line["spec"]), TrialResult.from_json({**result, "predictions": digits})


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: Path, line: Mapping[str, object]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def report(findings: Mapping[str, Mapping[str, object]]) -> None:
    """The table by case, and the means as the last line."""
    print("| case | best of the sweep | race chose | regret (95%) | on test halves | share of the sweep's time |")
    print("|---|---|---|---|---|---|")
    for name, case in findings.items():
        print(
            f"| {name} | {case['best']:.1f} | {case['chosen']} | {case['regret']:+.1f} ({case['low']:+.1f} to "
            f"{case['high']:+.1f}) | {case['crossed']:+.1f} | {100 * case['share']:.0f}% |"
        )
    keys = sorted({key for case in findings.values() for key in case if key.startswith(("regret_", "rank_"))})
    mean = {key: [case[key] for case in findings.values() if key in case and np.isfinite(case[key])] for key in keys}
    last = {
        "mean_regret_points": round(statistics.mean(case["regret"] for case in findings.values()), 3),
        "mean_crossed_regret_points": round(statistics.mean(case["crossed"] for case in findings.values()), 3),
        "share_of_sweep_time": round(statistics.mean(case["share"] for case in findings.values()), 3),
        **{key: round(statistics.mean(values), 3) for key, values in mean.items() if values},
    }
    print(json.dumps(last))


def main() -> None:
    """Run what is missing, then report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "frostline-regret")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", default=",".join(f"{task}-{seed}" for seed in range(SEEDS) for task in TASKS))
    parser.add_argument("--sweep-only", action="store_true")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    findings = {}
    for name in given.cases.split(","):
        case = Case(name, given)
        if not given.report:
            case.run()
        if (found := case.findings()) is not None:
            findings[name] = found
    if findings:
        report(findings)


if __name__ == "__main__":
    main()
