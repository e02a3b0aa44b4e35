"""Two forms of the probe of Xie et al. 2022, and whether layer scores agree with the paper's.

    python bench/probe_forms.py RESULTS.jsonl --encoders FOLDER --data FOLDER --glue FOLDER [--threads 1] [--seeds 1]
    python bench/probe_forms.py RESULTS.jsonl --report

Paper's form: the family's head on the frozen states of each layer, fitted on the training rows (at most 5,000), 20
epochs, batch 8, dropout 0.1, linear schedule with 6% warm-up, the paper's rates; the epoch is chosen on validation rows
(at most 1,500), and the probe is judged on test rows (at most 1,500; for SST-2 the official development set). Cautious
form: everything inside the same training rows, 10 epochs, batch 32, constant rate. Variability, CCA and rank are
measured on the training rows.

Every case, form and seed is a line of the results file; started again, it goes on with what is missing. `--report`
prints the tables of docs/measure.md. Last line: one flat JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr

from frostline.api._measure import measure
from frostline.encoders.loading import load_encoder
from frostline.tasks import Task, load_task
from frostline.tasks.splits import sample

ROWS = {"train": 5_000, "validation": 1_500, "test": 1_500}
PAPER = {"epochs": 20, "batch": 8, "schedule": "linear", "warmup": 0.06, "dropout": 0.1}
RATES = {"glue/sst2": 3e-3}
SCORES = ["variability", "variability.crossfit", "cca", "rank"]
PROBES = ["probe.linear", "probe.head"]
CASES = (
    ("deberta-v3-xsmall", "trec6"),
    ("gte-small", "trec6"),
    ("albert-kor-base", "3i4k_ko"),
    ("deberta-v3-xsmall", "glue/sst2"),
    ("gte-small", "glue/sst2"),
)
TRAINED = {"deberta-v3-xsmall": "replaced tokens", "albert-kor-base": "language modelling", "gte-small": "contrastive"}


def task_of(name: str, data: Path, glue: Path) -> Task:
    """Return a task with few enough rows for one core."""
    if name.startswith("glue/"):
        task = load_task(name, data_dir=glue)
    else:
        task = load_task(data / f"{name}_train.csv", test=data / f"{name}_test.csv")
    return replace(task, **{split: sample(task.splits[split], most) for split, most in ROWS.items()})


def run_case(encoder: str, task: Task, name: str, form: str, seed: int) -> dict[str, object]:
    """Return the curves of one form of the probe, with the other scores beside the paper's form."""
    loaded = load_encoder(encoder)
    rate = {"learning_rate": RATES.get(name, 1e-3)}
    started = time.process_time()
    if form == "paper":
        options = {"cca": {"samples": 2}, "probe.head": {**PAPER, **rate}}
        asked = {"scores": [*SCORES, *PROBES], "judged_on": "test", "chosen_on": "validation", "options": options}
    else:
        asked = {"scores": PROBES, "options": {"probe.head": rate}}
    found = measure(loaded, task, max_length=128, uncertainty=False, similarity=False, seed=seed, **asked)
    return {
        "rows": {split: len(task.splits[split]) for split in ROWS},
        "metric": task.metrics[0],
        "curves": {score: list(of_score.values) for score, of_score in found.scores.items()},
        "left_out": dict(found.left_out),
        "seconds": round(time.process_time() - started, 1),
    }


def read(results: Path) -> dict[tuple[str, str, str, int], dict]:
    """Return the finished lines by case."""
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return {(line["encoder"], line["task"], line["form"], line["seed"]): line for line in lines}


def curve(done: dict, encoder: str, task: str, form: str, score: str) -> np.ndarray:
    """Return the mean curve over seeds of layers 1..L."""
    curves = [line["curves"][score][1:] for key, line in done.items() if key[:3] == (encoder, task, form)]
    return np.mean(np.array(curves, float), axis=0)


def report(done: dict) -> dict[str, float]:
    """Print the tables; return figures of the last line."""
    cases = [case for case in CASES if {(*case, form, 0) for form in ("paper", "cautious")} <= set(done)]
    print("| encoder | task | head: paper's and cautious form, Spearman | linear: the same | best layer by head: "
          "paper's form | cautious | largest gap of the head, points |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    ranks = []
    for case in cases:
        forms = {(form, probe): curve(done, *case, form, probe) for form in ("paper", "cautious") for probe in PROBES}
        head, linear = (spearmanr(forms["paper", probe], forms["cautious", probe]).statistic for probe in PROBES[::-1])
        ranks.append(float(head))
        best = [1 + int(forms[form, "probe.head"].argmax()) for form in ("paper", "cautious")]
        gap = 100 * np.abs(forms["paper", "probe.head"] - forms["cautious", "probe.head"]).max()
        print(f"| {case[0]} | {case[1]} | {head:+.2f} | {linear:+.2f} | {best[0]} | {best[1]} | {gap:.1f} |")
    print(
        "\n| encoder | trained by | task | variability | CCA | rank | least variability | best by CCA | best by head |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        probe = curve(done, *case, "paper", "probe.head")
        scores = {score: curve(done, *case, "paper", score) for score in ("variability", "cca", "rank")}
        told = [f"{pearsonr(values, probe).statistic:+.2f}" for values in scores.values()]
        least, most = 1 + int(scores["variability"].argmin()), 1 + int(scores["cca"].argmax())
        print(f"| {case[0]} ({len(probe)} layers) | {TRAINED[case[0]]} | {case[1]} | {' | '.join(told)} | {least} | "
              f"{most} | {1 + int(probe.argmax())} |")  # fmt: skip
    return {"cases": len(cases), "mean_spearman_of_forms": round(statistics.mean(ranks), 3) if ranks else 0.0}


def main() -> None:
    """Run what is missing, or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    for name in ("encoders", "data", "glue"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    done = read(given.results)
    for seed in range(0 if given.report else given.seeds):
        for encoder, name in CASES:
            for form in ("paper", "cautious"):
                key = (encoder, name, form, seed)
                if key in done:
                    continue
                task = task_of(name, given.data, given.glue)
                case = dict(zip(("encoder", "task", "form", "seed"), key, strict=True))
                line = {**case, **run_case(str(given.encoders / encoder), task, name, form, seed)}
                with given.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                done[key] = line
                print(key, f"{line['seconds']} s", flush=True)
    print(json.dumps(report(done)))


if __name__ == "__main__":
    main()
