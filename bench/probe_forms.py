"""Two forms of the probe of Xie et al. 2022, and whether layer scores agree with the paper's.

    python bench/probe_forms.py RESULTS.jsonl --encoders FOLDER --data FOLDER --glue FOLDER [--threads 1] [--seeds 1]
                                [--only ENCODER]
    python bench/probe_forms.py RESULTS.jsonl --report

Paper's form: the family's head on the frozen states of each layer, fitted on the training rows (at most 2,500), 20
epochs, batch 8, dropout 0.1, linear schedule with 6% warm-up, the paper's rates; the epoch is chosen on validation rows
(at most 1,000), and the probe is judged on test rows (at most 1,000; for SST-2 the official development set). Cautious
form: everything inside the same training rows, 10 epochs, batch 32, constant rate. Variability, CCA and rank are
measured on the training rows.

Every case and seed is a line of the results file; started again, it goes on with what is missing. `--report`
prints the tables of docs/measure.md. Last line: one flat JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.states.pooled import pooled_states
from frostline.stats.curves import correlate_curves
from frostline.tasks import Split, Task, load_task
from frostline.tasks.splits import sample

ROWS = {"train": 2_500, "validation": 1_000, "test": 1_000}
MAX_LENGTH = 128
FORMS = ("paper", "cautious")
PAPER = {"epochs": 20, "batch": 8, "schedule": "linear", "warmup": 0.06, "dropout": 0.1}
RATES = {"glue/sst2": 3e-3}
SCORES = ["variability", "cca", "rank"]
PROBES = ["probe.linear", "probe.head"]
CASES = (
    ("deberta-v3-xsmall", "trec6"),
    ("gte-small", "trec6"),
    ("deberta-v3-xsmall", "glue/sst2"),
    ("albert-kor-base", "3i4k_ko"),
    ("gte-small", "glue/sst2"),
)
TRAINED = {
    "deberta-v3-xsmall": "DeBERTa v3, then a classifier of prompts",
    "albert-kor-base": "masked language modelling and sentence order",
    "gte-small": "contrastively",
}


def task_of(name: str, data: Path, glue: Path) -> Task:
    """Return a task with few enough rows for one core."""
    if name.startswith("glue/"):
        task = load_task(name, data_dir=glue)
    else:
        task = load_task(data / f"{name}_train.csv", test=data / f"{name}_test.csv")
    return replace(task, **{split: sample(task.splits[split], most) for split, most in ROWS.items()})


def look(encoder: Encoder, split: Split, task: Task, *, seed: int) -> Evidence:
    """Return the encoder's view of rows."""
    tokens = encoder.tokenize(split.texts, split.pairs, max_length=MAX_LENGTH)
    return Evidence(
        states=pooled_states(encoder, tokens),
        labels=torch.tensor(split.labels),
        groups=torch.arange(len(split)),
        kind=task.kind,
        metric=task.metrics[0],
        pooling="mean",
        seed=seed,
        encoder=encoder,
    )


def run_case(encoder: str, task: Task, name: str, seed: int) -> dict[str, object]:
    """Return the curves of the scores, and of the probes in both forms, from the same states."""
    started = time.process_time()
    loaded = load_encoder(encoder)
    inside, check, held = (look(loaded, task.splits[split], task, seed=seed) for split in ROWS)
    rate = {"learning_rate": RATES.get(name, 1e-3)}
    forms = {"paper": (replace(inside, check=check, held=held), {**PAPER, **rate}), "cautious": (inside, rate)}
    curves = {score: estimate(score, inside, {"samples": 2} if score == "cca" else {}) for score in SCORES}
    for form, (evidence, recipe) in forms.items():
        for probe in PROBES:
            curves[f"{probe}, {form}"] = estimate(probe, evidence, recipe if probe == "probe.head" else {})
    return {
        "rows": {split: len(task.splits[split]) for split in ROWS},
        "metric": task.metrics[0],
        "curves": curves,
        "seconds": round(time.process_time() - started, 1),
    }


def estimate(name: str, evidence: Evidence, options: Mapping[str, object]) -> list[float]:
    """Return a score of all layers; class-balanced where it is defined so."""
    score = LAYER_SCORES[name]
    given = evidence.balanced() if score.balanced else evidence
    return [round(float(value), 6) for value in score.estimate(given, uncertainty=False, **options).values]


def read(results: Path) -> dict[tuple[str, str, int], dict]:
    """Return the finished lines by case."""
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return {(line["encoder"], line["task"], line["seed"]): line for line in lines}


def curve(done: dict, encoder: str, task: str, score: str) -> np.ndarray:
    """Return the mean curve over seeds of layers 1..L."""
    curves = [line["curves"][score][1:] for key, line in done.items() if key[:2] == (encoder, task)]
    return np.mean(np.array(curves, float), axis=0)


def report(done: dict) -> dict[str, float]:
    """Print the tables; return figures of the last line."""
    cases = [case for case in CASES if (*case, 0) in done]
    titles = ["encoder", "task", "head, both forms", "linear, both forms", "best by head, paper's", "cautious", "gap"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    ranks = []
    for case in cases:
        both = {probe: [curve(done, *case, f"{probe}, {form}") for form in FORMS] for probe in PROBES}
        linear, head = (float(spearmanr(*both[probe]).statistic) for probe in PROBES)
        ranks.append(head)
        best = [1 + int(of_form.argmax()) for of_form in both["probe.head"]]
        gap = 100 * float(np.abs(np.subtract(*both["probe.head"])).max())
        print(f"| {case[0]} | {case[1]} | {head:+.2f} | {linear:+.2f} | {best[0]} | {best[1]} | {gap:.1f} |")
    titles = ["encoder", "trained by", "task", "variability", "p", "CCA", "p", "rank", "p"]
    titles += ["least variability", "best by CCA", "best by head", "best by linear"]
    print(f"\n| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for case in cases:
        head, linear = (curve(done, *case, f"{probe}, paper") for probe in PROBES[::-1])
        scores = {score: curve(done, *case, score) for score in SCORES}
        correlations = [f"{value:+.2f} | {p:.2g}" for value, p in
                (correlate_curves(values.tolist(), head.tolist()) for values in scores.values())]  # fmt: skip
        ends = [scores["variability"].argmin(), scores["cca"].argmax(), head.argmax(), linear.argmax()]
        print(f"| {case[0]} ({len(head)} layers) | {TRAINED[case[0]]} | {case[1]} | {' | '.join(correlations)} | "
              f"{' | '.join(str(1 + int(end)) for end in ends)} |")  # fmt: skip
    losses = report_choices(done, cases)
    return {"cases": len(cases), **losses, "mean_spearman_of_forms": round(statistics.mean(ranks), 3) if ranks else 0.0}


def report_choices(done: dict, cases: list[tuple[str, str]]) -> dict[str, float]:
    """Print what the paper's probe has at the layer that a score or a fixed rule chooses; return mean losses."""
    titles = ["encoder", "task", "head at its best layer", "least variability", "best CCA", "layer 7", "layer 12"]
    print(f"\n| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    losses: dict[str, list[float]] = {}
    for case in cases:
        head = 100 * curve(done, *case, "probe.head, paper")
        variability, cca = (curve(done, *case, score) for score in ("variability", "cca"))
        chosen = {"variability": variability.argmin(), "cca": cca.argmax(), "middle": len(head) // 2, "last": -1}
        for name, layer in chosen.items():
            losses.setdefault(f"loss_{name}", []).append(float(head.max() - head[layer]))
        at = " | ".join(f"{head[layer]:.1f}" for layer in chosen.values())
        print(f"| {case[0]} | {case[1]} | {head.max():.1f} | {at} |")
    return {name: round(statistics.mean(values), 2) for name, values in losses.items()}


def main() -> None:
    """Run what is missing, or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    for name in ("encoders", "data", "glue"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="run only the cases of this encoder")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    done = read(given.results)
    for seed in range(0 if given.report else given.seeds):
        for encoder, name in CASES:
            key = (encoder, name, seed)
            if key in done or given.only not in ("", encoder):
                continue
            task = task_of(name, given.data, given.glue)
            case = dict(zip(("encoder", "task", "seed"), key, strict=True))
            done[key] = {**case, **run_case(str(given.encoders / encoder), task, name, seed)}
            with given.results.open("a") as file:
                file.write(json.dumps(done[key]) + "\n")
            print(key, f"{done[key]['seconds']} s", flush=True)
    print(json.dumps(report(done)))


if __name__ == "__main__":
    main()
