"""Does a score that is computed before tuning add to depth, when it ranks plans by what they are worth once tuned?

    python bench/criteria.py SWEEP.jsonl CRITERIA.jsonl --data FOLDER [--glue FOLDER] [--encoders FOLDER]
                             [--cases sst5,trec6@gte-small] [--seed 0] [--threads 1] [--partial] [--wide] [--report]

The truth is the sweep of `bench/sweep.py`: a plan is worth the test accuracy of the rate that is best on validation.
Only plans whose layers are tuned in full below a head at the top are ranked; LoRA, heads alone and plans that drop
layers are left out. The criteria see the sweep's training rows: every layer score that suits the task, for a plan the
mean over its tuned layers, with a minus sign where low is better; forecasts of plans, one with shuffled labels; probes
of several layers. From the sweep come the rivals that train: validation at the first mark of the usual rate, and after
tuning. Two rows of the table are depth itself.

Each criterion has Spearman's correlation with the truth, plain and given depth: the centre of the tuned layers, its
square, and their number, as ranks (`--wide`: also the square of the number, and the product). These do not hold all
that depth says, and the rest is the same on every set, so that no interval shows it; hence a third correlation, given
depth and the plan's mean rank on the other data sources with this encoder. Cases of one data source are averaged before
the mean and its interval are computed. The ceiling is what a perfect criterion would reach on so few test rows; it
ignores the noise of training, so the real one is lower. Costs are in passes of the encoder over the training rows,
besides the one pass that all scores of states share.

Every criterion of a case is a line of the results file; started again, it goes on with what is missing. Criteria do not
need the sweep; the report is on the cases whose sweep is complete, or with `--partial` on what there is. `--report`
computes nothing. Last line: one flat JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from forecast_forms import WARM_UP, gains_after_warm_up, gains_with_rate_and_steps, sets_of
from ranks import ceiling, depth_columns, partial_correlation
from regret import over_sources
from scipy.stats import rankdata
from sweep import CASES, FACTORS, MAX_LENGTH, best_rates, decode, encode, grid, lines, plan_name, task_of

from frostline.encoders.loading import load_encoder
from frostline.errors import MeasureError
from frostline.plans.lengths import FIRST_STEPS
from frostline.records import Plan
from frostline.scoring.chance import NULLS
from frostline.scoring.forecast import make_forecast
from frostline.scoring.probes.mixed import fit_mixed_probe
from frostline.scoring.score_inputs import Evidence, group_numbers
from frostline.scoring.scores import Score
from frostline.scoring.selection import choose_scores
from frostline.states.pooled import pooled_states
from frostline.tasks import Task

FORECASTS: dict[str, dict[str, object]] = {
    "plan forecast": {},
    "plan forecast, mean head": {"head": "mean"},
    "plan forecast, one direction": {"directions": 1},
    "plan forecast, one halving": {"halvings": 1},
    "plan forecast, rank 128": {"rank": 128},
}
WITH_RATE = "plan forecast, with rate and steps"
WARM = f"plan forecast, after {WARM_UP} steps"
SHUFFLED = "plan forecast, shuffled labels"
PASS = "one pass"
DEPTH = ("closeness to the middle", "number of layers")
FEWEST = 8  # plans that are worth ranking
DESIGNS = ("plain", "given depth", "given depth and other sets")

Values = dict[str, object]  # what a line holds of a criterion, either 'layers' or 'plans'


def ranked_plans(depth: int) -> list[Plan]:
    """Return the sweep's plans whose layers are tuned in full below a head at the top."""
    return [plan for plan in grid(depth) if plan.layers and plan.head == depth and plan.method == "full"]


# Computing ---------------------------------------------------------------------------------------------------------


def compute(case: str, given: argparse.Namespace) -> None:
    """Append the criteria of a case that are missing to the results file."""
    done = {line["criterion"] for line in lines(given.results) if line["case"] == case}
    data, _, name = case.partition("@")
    task = task_of(data, given, given.seed)
    encoder = load_encoder(str(given.encoders / name) if name else None)
    criteria = criteria_of(task, ranked_plans(encoder.depth))
    if criteria.keys() | {PASS} <= done:
        return
    started = time.process_time()
    split = task.train.as_rows()
    tokens = encoder.tokenize(split.texts, split.pairs, max_length=MAX_LENGTH)
    evidence = Evidence(
        states=pooled_states(encoder, tokens, poolings=["mean", "first", "all"]),
        labels=torch.tensor(split.labels),
        groups=group_numbers(split),
        kind=task.kind,
        metric=task.metrics[0],
        pooling="mean",
        seed=given.seed,
        encoder=encoder,
        tokens=tokens,
        split=split,
    )
    seconds = time.process_time() - started
    if PASS not in done:
        append(given.results, case, PASS, {"depth": encoder.depth, "labels": encode(task.test.labels)}, seconds)
    for criterion, values_of in criteria.items():
        if criterion in done:
            continue
        started = time.process_time()
        try:
            values = values_of(replace(evidence))  # a copy, which shares no intermediate results with other scores
        except MeasureError as error:
            values = {"reason": str(error)}
        append(given.results, case, criterion, values, time.process_time() - started)


def append(results: Path, case: str, criterion: str, values: Values, seconds: float) -> None:
    """Append a line to the results file."""
    line = {"case": case, "criterion": criterion, **values, "seconds": round(seconds, 3)}
    with results.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(case, criterion, values.get("reason", ""), f"{seconds:.1f} s", flush=True)


def criteria_of(task: Task, plans: Sequence[Plan]) -> dict[str, Callable[[Evidence], Values]]:
    """Return the functions that compute the criteria, by name."""
    scores, _ = choose_scores("all", task, stream=False)
    forecasts = {name: partial(of_forecast, plans=plans, **options) for name, options in FORECASTS.items()}
    return {
        **{score.name: partial(of_score, score=score) for score in scores},
        "probe.mixed, shares": of_shares,
        "probe.mixed, layers of the plan": partial(of_mixed_probes, plans=plans),
        **forecasts,
        WITH_RATE: partial(of_form, plans=plans, gains=with_rate_and_steps),
        WARM: partial(of_form, plans=plans, gains=gains_after_warm_up),
        SHUFFLED: lambda evidence: of_forecast(NULLS["shuffled"](evidence, poolings=()), plans=plans),
    }


def of_score(evidence: Evidence, *, score: Score) -> Values:
    """Return a layer score, class-balanced where it is defined so."""
    values = score.estimate(evidence.balanced() if score.balanced else evidence, uncertainty=False).values
    return {"better": score.better, "layers": [number(value) for value in values.tolist()]}


def of_shares(evidence: Evidence) -> Values:
    """Return the shares of layers 0..L in the probe of their weighted mean."""
    shares = fit_mixed_probe(evidence, uncertainty=False).shares
    assert shares is not None
    return {"better": "high", "layers": [number(share) for share in shares]}


def of_mixed_probes(evidence: Evidence, *, plans: Sequence[Plan]) -> Values:
    """Return the held-out metric of a probe of each plan's tuned layers side by side."""
    values = {
        plan_name(plan): fit_mixed_probe(evidence, mix="concatenated", layers=plan.layers, uncertainty=False).estimate
        for plan in plans
    }
    return {"better": "high", "plans": {name: number(float(value.values[0])) for name, value in values.items()}}


def of_forecast(evidence: Evidence, *, plans: Sequence[Plan], **options: object) -> Values:
    """Return the forecast gain of each plan, of which full fine-tuning also tunes the embeddings."""
    made = make_forecast(evidence.in_order(), **options)  # type: ignore[arg-type]
    return of_plans(plans, made.gains(sets_of(plans), uncertainty=False).values.tolist())


def of_form(evidence: Evidence, *, plans: Sequence[Plan], gains: Callable[..., list[float]]) -> Values:
    """Return the gain of each plan by another form of the forecast."""
    return of_plans(plans, gains(evidence, plans))


def with_rate_and_steps(evidence: Evidence, plans: Sequence[Plan]) -> list[float]:
    """Return the forecast of each plan with its own learning rate."""
    assert evidence.encoder is not None
    return gains_with_rate_and_steps(make_forecast(evidence.in_order()), plans, width=evidence.encoder.width)


def of_plans(plans: Sequence[Plan], values: Sequence[float]) -> Values:
    """Return values of plans as they are recorded."""
    named = zip(plans, values, strict=True)
    return {"better": "high", "plans": {plan_name(plan): number(value) for plan, value in named}}


def number(value: float) -> float | None:
    """Return a value as it is recorded; None where it is undefined."""
    return float(f"{value:.8g}") if math.isfinite(value) else None


# Comparing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A criterion's values in one case.

    Args:
        values: (plans,), more is better; NaN where undefined.
        seconds: what they cost.
    """

    values: np.ndarray
    seconds: float


class Case:
    """The truth of one case, and the criteria."""

    def __init__(self, sweep: Sequence[dict], recorded: Sequence[dict]) -> None:
        """Take the lines of one case of the sweep and of the results file."""
        self.sweep = sweep
        self.recorded = {line["criterion"]: line for line in recorded}
        self.depth, self.pass_seconds = (self.recorded[PASS][name] for name in ("depth", "seconds"))
        best = {line["plan"]: line for line in best_rates(list(sweep))}
        tried = {(line["plan"], line["factor"]) for line in sweep}
        names = {plan_name(plan): plan for plan in ranked_plans(self.depth)}
        self.missing = [name for name in names if any((name, factor) not in tried for factor in FACTORS)]
        self.plans = {name: plan for name, plan in names.items() if name in best and name not in self.missing}
        labels = decode(self.recorded[PASS]["labels"])
        self.is_right = np.array([decode(best[name]["predictions"]["test"]) == labels for name in self.plans], float)
        self.best = [best[name] for name in self.plans]
        self.layers = [plan.layers for plan in self.plans.values()]

    def criteria(self) -> dict[str, Criterion]:
        """Return all criteria."""
        return {**self._depth(), **self._recorded(), **self._trained()}

    def correlation(self, values: np.ndarray, columns: np.ndarray) -> float:
        """Return a criterion's rank correlation with the truth given columns, over the plans that have a value."""
        known = ~np.isnan(values)
        if known.sum() < FEWEST:
            return float("nan")
        return partial_correlation(values[known], self.is_right[known].mean(axis=1), columns[known])

    def places(self) -> dict[str, float]:
        """Return each plan's rank by the truth, from 0 to 1."""
        ranks = rankdata(self.is_right.mean(axis=1)) / len(self.plans)
        return dict(zip(self.plans, ranks.tolist(), strict=True))

    def _depth(self) -> dict[str, Criterion]:
        closeness = [-abs(statistics.mean(own) - (self.depth + 1) / 2) for own in self.layers]
        values = dict(zip(DEPTH, (closeness, [len(own) for own in self.layers]), strict=True))
        return {name: Criterion(values=np.array(of_plans, float), seconds=0) for name, of_plans in values.items()}

    def _recorded(self) -> dict[str, Criterion]:
        return {
            name: Criterion(values=np.array([value_of(line, plan) for plan in self.plans.values()]),
                            seconds=line["seconds"])
            for name, line in self.recorded.items()
            if "layers" in line or "plans" in line
        }  # fmt: skip

    def _trained(self) -> dict[str, Criterion]:
        """Return the criteria that train every plan; for its first steps, their share of the trial's seconds."""
        usual = {line["plan"]: line for line in self.sweep if line["factor"] == 1 and line["status"] == "done"}
        early = [first_mark(usual.get(name)) for name in self.plans]
        accuracy, loss, seconds = np.array(early, float).T
        tuned = np.array([line["metrics"]["validation"] for line in self.best])
        in_all = sum(line["seconds"] for line in self.sweep if line["plan"] in self.plans)
        return {
            f"validation accuracy after {FIRST_STEPS} steps": Criterion(values=accuracy, seconds=np.nansum(seconds)),
            f"validation loss after {FIRST_STEPS} steps": Criterion(values=-loss, seconds=np.nansum(seconds)),
            "validation accuracy once tuned": Criterion(values=tuned, seconds=in_all),
        }


def value_of(line: Mapping[str, dict], plan: Plan) -> float:
    """Return a recorded criterion of a plan, more is better; NaN where none of its layers has a score."""
    if "plans" in line:
        values = [line["plans"].get(plan_name(plan))]
    else:
        values = [line["layers"][layer] for layer in plan.layers]
    known = [value for value in values if value is not None]
    sign = 1 if line["better"] == "high" else -1
    return sign * statistics.mean(known) if known else float("nan")


def first_mark(trial: Mapping[str, list] | None) -> tuple[float, float, float]:
    """Return accuracy and loss on validation at a trial's first evaluation, and about what it took to get there."""
    history = trial["history"] if trial else []
    if not trial or not history or history[0][0] != FIRST_STEPS:
        return (float("nan"),) * 3
    return history[0][1], history[0][2], trial["seconds"] * history[0][0] / history[-1][0]


# Reporting ---------------------------------------------------------------------------------------------------------


def designs(name: str, cases: Mapping[str, Case], *, wide: bool) -> dict[str, np.ndarray]:
    """Return the columns that each correlation of a case is given; the last one only where there are other sets."""
    own = cases[name]
    depth = depth_columns(own.layers, wide=wide)
    made = {DESIGNS[0]: np.empty((len(own.plans), 0)), DESIGNS[1]: depth}
    source, _, encoder = name.partition("@")
    others = [case.places() for other, case in cases.items()
              if other.partition("@")[2] == encoder and other.partition("@")[0] != source]  # fmt: skip
    if others:
        places = [statistics.mean([place.get(plan, 0.5) for place in others]) for plan in own.plans]
        made[DESIGNS[2]] = np.column_stack([depth, places])
    return made


def report(cases: Mapping[str, Case], *, wide: bool = False) -> dict[str, float]:
    """Print a row per criterion, the ceiling first; return figures of the last line."""
    rhos: dict[str, dict[str, dict[str, float]]] = {design: {} for design in DESIGNS}
    passes: dict[str, list[float]] = {}
    for case, own in cases.items():
        criteria = own.criteria()
        for design, columns in designs(case, cases, wide=wide).items():
            rhos[design].setdefault("ceiling", {})[case] = ceiling(own.is_right, columns)
            for name, criterion in criteria.items():
                rhos[design].setdefault(name, {})[case] = own.correlation(criterion.values, columns)
        for name, criterion in criteria.items():
            passes.setdefault(name, []).append(criterion.seconds / own.pass_seconds)
    print(f"| criterion | {' | 95% | '.join(DESIGNS)} | 95% | passes | cases |\n|{'---|' * 9}")
    means = {name: [mean_of(rhos[design].get(name, {})) for design in DESIGNS] for name in rhos["plain"]}
    figures: dict[str, float] = {}
    for name in sorted(means, key=lambda name: (name != "ceiling", -sort_key(means[name][1]))):
        cost = statistics.mean(passes[name]) if name in passes else float("nan")
        known = sum(not math.isnan(value) for value in rhos["plain"][name].values())
        cells = [cell for mean in means[name] for cell in (shown(mean[0]), interval(mean))]
        print(f"| {name} | {' | '.join(cells)} | {'' if math.isnan(cost) else f'{cost:.2f}'} | {known} |")
        for design, mean in zip(DESIGNS, means[name], strict=True):
            figures |= flat(f"{name} {design}", mean)
        figures |= {} if math.isnan(cost) else {f"{slug(name)}_passes": round(cost, 3)}
    return {"cases": len(cases), **figures, **report_chance(rhos["given depth"], means)}


def report_chance(rhos: Mapping[str, Mapping[str, float]], means: Mapping[str, Sequence[tuple]]) -> dict[str, float]:
    """Print how far forecasts are from that with shuffled labels, and how many intervals leave out 0."""
    figures: dict[str, float] = {}
    by_chance = rhos.get(SHUFFLED, {})
    for name in [name for name in (*FORECASTS, WITH_RATE, WARM) if name in rhos and by_chance]:
        gap = mean_of({case: rhos[name][case] - by_chance[case] for case in rhos[name] if case in by_chance})
        print(f"{name} minus that with shuffled labels, given depth: {shown(gap[0])} {interval(gap)}")
        figures |= flat(f"{name} minus shuffled", gap)
    for column, design in enumerate(DESIGNS[1:], 1):
        judged = [mean[column] for name, mean in means.items() if name not in ("ceiling", *DEPTH)]
        judged = [mean for mean in judged if math.isfinite(mean[1])]
        beyond = sum(low > 0 or high < 0 for _, low, high in judged)
        if judged:
            print(f"{design}: {beyond} of {len(judged)} intervals leave out 0; 1 in 20 would by chance")
    return figures


def mean_of(values: Mapping[str, float]) -> tuple[float, float, float]:
    """Return the mean over sources and its interval, of the cases that have a value."""
    known = {case: value for case, value in values.items() if not math.isnan(value)}
    return over_sources(known) if known else (float("nan"),) * 3


def sort_key(estimate: tuple[float, float, float]) -> float:
    """Return the mean, or less than any if there is none."""
    return -2.0 if math.isnan(estimate[0]) else estimate[0]


def shown(value: float) -> str:
    """Return a correlation as it is printed."""
    return "" if math.isnan(value) else f"{value:+.2f}"


def interval(estimate: tuple[float, float, float]) -> str:
    """Return the ends of an interval as they are printed; there are none for a single source."""
    return f"{estimate[1]:+.2f} to {estimate[2]:+.2f}" if math.isfinite(estimate[1]) else ""


def flat(name: str, estimate: tuple[float, float, float]) -> dict[str, float]:
    """Return a mean and its interval as entries of the last line, those that are finite."""
    values = zip(("", "_low", "_high"), estimate, strict=True)
    return {slug(name) + end: round(value, 3) for end, value in values if math.isfinite(value)}


def slug(name: str) -> str:
    """Return a name as the key of an entry."""
    return re.sub(r"\W+", "_", name)


def cases_of(given: argparse.Namespace, names: Sequence[str]) -> dict[str, Case]:
    """Return the cases that can be reported, and print why others are not."""
    sweep, recorded = lines(given.sweep), lines(given.results)
    cases = {}
    for name in names:
        own = [line for line in recorded if line["case"] == name]
        if PASS not in {line["criterion"] for line in own}:
            print(f"{name}: no criteria yet")
            continue
        case = Case([line for line in sweep if line["case"] == name], own)
        if (case.missing and not given.partial) or len(case.plans) < FEWEST:
            print(f"{name}: the sweep lacks {len(case.missing)} of {len(ranked_plans(case.depth))} plans")
            continue
        cases[name] = case
    return cases


def main() -> None:
    """Compute what is missing, then report."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("results", type=Path)
    for name in ("data", "glue", "encoders"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--partial", action="store_true")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    names = given.cases.split(",")
    for name in [] if given.report else names:
        compute(name, given)
    cases = cases_of(given, names)
    print(json.dumps(report(cases, wide=given.wide) if cases else {}))


if __name__ == "__main__":
    main()
