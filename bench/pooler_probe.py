"""Does the frozen pooler explain probes near chance in early layers?

    python bench/pooler_probe.py GLUE ALBERT DATA [TASK]

GLUE is a folder with the official files (SST-2, CoLA), ALBERT a folder with an ALBERT whose pooler was trained with
sentence-order prediction, DATA a file of labelled texts for it. Linear probes of every layer, trained as in Tamkin et
al. 2020, read the mean of all tokens (the text), the first token, and the first token through the frozen pretrained
pooler (the released script). The exact probe on standardised states shows what could be read. Appends a JSON line for
each probe to bench/results/pooler_probe.jsonl; those that are there already are not run again. TASK, such as glue/sst2,
runs the probes of one task alone. One thread.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores.probe_linear import probe_linear
from frostline.scoring.scores.probe_paper import probe_linear_paper
from frostline.scoring.scores.probe_pooler import read_through_pooler
from frostline.states.pooled import pooled_states
from frostline.tasks import Task, load_task
from frostline.tasks.splits import sample

RESULTS = Path(__file__).parent / "results" / "pooler_probe.jsonl"
ROWS, TRIALS = 2_000, 4
RECIPES = {"usual": {"learning_rate": 1e-3, "batch": 32}, "exact": {}, "paper": {"learning_rate": 2e-5, "batch": 8}}
READS = ("mean", "first", "pooler")


def evidence_of(encoder: Encoder, task: Task) -> Evidence:
    """States of the mean of all tokens and of the first one, of at most ROWS training rows."""
    split = sample(task.train, ROWS, seed=0)
    tokens = encoder.tokenize(split.texts, split.pairs, max_length=128)
    return Evidence(
        states=pooled_states(encoder, tokens, poolings=["all", "first"]),
        labels=torch.tensor(split.labels),
        groups=torch.arange(len(split)),
        kind=task.kind,
        metric=task.metrics[0],
        pooling="all",
        seed=0,
        encoder=encoder,
    )


def read(evidence: Evidence, reads: str) -> Evidence:
    """The same rows, with what the probe reads as states."""
    if reads == "pooler":
        return read_through_pooler(evidence, evidence.encoder)
    return replace(evidence, states={"all": evidence.states["all" if reads == "mean" else "first"]})


def measure(evidence: Evidence, reads: str, recipe: str) -> dict[str, Any]:
    """Each layer's probe with its 95% interval, over trials or, where it is exact, over held-out rows."""
    started, asked = time.perf_counter(), read(evidence, reads)
    if recipe == "exact":
        probe, trials = probe_linear(asked), 1
    else:
        probe = probe_linear_paper(asked, trials=TRIALS, intervals="trials", **RECIPES[recipe])
        trials = TRIALS
    low, high = probe.interval()
    numbers = {name: [round(float(value), 4) for value in ends]
               for name, ends in (("values", probe.values), ("low", low), ("high", high))}  # fmt: skip
    # The mean standard deviation of a feature over texts: where it is small, steps of a fixed rate learn little.
    spread = [round(float(layer.std(0).mean()), 5) for layer in asked.states["all"]]
    most = Counter(evidence.labels.tolist()).most_common(1)[0][1] / len(evidence)
    seconds = round(time.perf_counter() - started, 1)
    return {"rows": len(evidence), "trials": trials, "metric": evidence.metric, "most_frequent": round(most, 4),
            **RECIPES[recipe], **numbers, "spread": spread, "seconds": seconds}  # fmt: skip


def cases(glue: str, albert: str, data: str) -> Iterator[tuple[str, Encoder, Task]]:
    """Encoders with a pretrained pooler, and tasks."""
    for name in ("cola", "sst2"):
        yield "all-MiniLM-L6-v2", load_encoder(None), load_task(f"glue/{name}", data_dir=glue)
    yield Path(albert).name, load_encoder(albert), load_task(data)


def main() -> None:
    torch.set_num_threads(1)
    known = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    done = {tuple(row[key] for key in ("encoder", "task", "reads", "recipe")) for row in known}
    views: dict[tuple[str, str], Evidence] = {}
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    for recipe in RECIPES:
        for name, encoder, task in cases(*sys.argv[1:4]):
            assert encoder.has_pretrained_pooler, name
            if only not in ("", task.name):
                continue
            for reads in READS:
                key = (name, task.name, reads, recipe)
                if key in done:
                    continue
                if key[:2] not in views:
                    views[key[:2]] = evidence_of(encoder, task)
                found = measure(views[key[:2]], reads, recipe)
                row = dict(zip(("encoder", "task", "reads", "recipe"), key, strict=True)) | found
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
