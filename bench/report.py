"""How long the page of a large study takes, and how large it is. `python bench/report.py [TRIALS]`

A study of 2,000 trials: 5 encoders on 8 tasks, 10 plans, 5 seeds, each trial with 1,000 predictions, in a real store
with the study's own tables. Prints a table and, as the last line, one flat JSON object.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from frostline.records import EncoderRef, Plan, Recipe, TaskRef, TrialResult, TrialSpec
from frostline.records.table import table_of
from frostline.report.pages import write_report
from frostline.trials.store import Store

ENCODERS, TASKS, SEEDS, ROWS, DEPTH = 5, 8, 5, 1000, 12
ROUNDS = 3


def fill(folder: Path, trials: int) -> None:
    """Write the folder as the study would."""
    draw = random.Random(0)
    folder.mkdir()
    per_pair = trials // (ENCODERS * TASKS * SEEDS)
    records = []
    with Store(folder / "store.sqlite") as store:
        for encoder in range(ENCODERS):
            for task in range(TASKS):
                for arm in range(per_pair):
                    layers = tuple(range(DEPTH - arm, DEPTH + 1))
                    values = [60 + arm + draw.random() * 5 for _ in range(SEEDS)]
                    for seed in range(SEEDS):
                        spec = TrialSpec(
                            encoder=EncoderRef(name=f"encoder-{encoder}", revision=str(encoder)),
                            task=TaskRef(name=f"task-{task}", fingerprint=str(task), metrics=("accuracy",)),
                            plan=Plan(layers=layers, head=DEPTH),
                            recipe=Recipe(learning_rate=1e-4, seed=seed),
                        )
                        said = tuple(draw.randrange(2) for _ in range(ROWS))
                        metrics = {"validation": {"accuracy": values[seed] / 100}}
                        store.put(spec, TrialResult(status="done", metrics=metrics, predictions={"test": said}))
                    mean = statistics.mean(values)
                    records.append({"encoder": f"encoder-{encoder}", "task": f"task-{task}", "arm": f"{arm} frozen",
                                    "frozen": arm, "metric": "accuracy", "seeds": SEEDS, "failed": 0, "mean": mean,
                                    "deviation": statistics.stdev(values), "low": mean - 2, "high": mean + 2,
                                    "minus_full": arm - 5, "rows_low": arm - 7, "rows_high": arm - 3, "layers": DEPTH,
                                    "share_of_full": mean / 75, "seeds_low": mean / 80, "seeds_high": mean / 70,
                                    "informative": True})  # fmt: skip
    quality = table_of("quality", "Quality by the number of frozen layers", records)
    share = table_of("share", "Share of full tuning's quality that is kept", records)
    write_json(folder / "tables.json", [table.to_json() for table in (quality, share)])
    names = [f"encoder-{number}" for number in range(ENCODERS)]
    asked = {"study": "freeze", "encoders": dict.fromkeys(names, "abc"), "seeds": SEEDS,
             "tasks": {f"task-{number}": ["abc", "accuracy"] for number in range(TASKS)}}  # fmt: skip
    write_json(folder / "study.json", asked)
    write_json(folder / "frostline.json", {"kind": "study", "command": ["frostline", "study", "freeze"]})


def write_json(path: Path, content: object) -> None:
    """Plain JSON."""
    path.write_text(json.dumps(content))


def main() -> None:
    """Build the page a few times."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "study"
        fill(folder, trials)
        seconds, computing = [], []
        for _ in range(ROUNDS):
            started, busy = time.perf_counter(), time.process_time()
            path = write_report(folder)
            seconds.append(time.perf_counter() - started)
            computing.append(time.process_time() - busy)
        megabytes = path.stat().st_size / 1e6
    print(f"{trials} trials: {max(seconds):.1f} s at most ({max(computing):.1f} s computing), {megabytes:.2f} MB")
    print(json.dumps({"trials": trials, "page_seconds": round(max(seconds), 2), "page_megabytes": round(megabytes, 2)}))


if __name__ == "__main__":
    main()
