"""How far the predicted costs of plans are from what tuning them takes: seconds and memory.

    python bench/cost.py GLUE [--threads 1]

Five plans on two encoders, two epochs on a few hundred rows of SST-2. Seconds are predicted after timing a few steps on
this machine and measured around a whole run with an empty cache. Memory is the most that a process of its own held
while it ran, over what it held after its imports. Prints a table and, as the last line, one flat JSON object: by which
factor seconds are off at worst, and by which share memory is. The first argument is a folder with the official files.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers
from transformers import BertConfig, BertModel

from frostline.costs.cost import Costs
from frostline.costs.timing import calibrate
from frostline.costs.workload import make_workload
from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.records import Plan, Recipe
from frostline.records.cost import Cost
from frostline.tasks import Split, Task, load_task
from frostline.tasks.splits import sample
from frostline.training.execution import Settings, execute
from frostline.training.shared_inputs import SharedInputs

RECIPE = Recipe(epochs=2, learning_rate=1e-4)
ROWS = {"train": 400, "validation": 200}
SIZES = ("embedded default", "random 12 x 384")


def make_encoder(size: str) -> Encoder:
    encoder = load_encoder()
    if size == SIZES[0]:
        return encoder
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, num_hidden_layers=12, hidden_size=384, num_attention_heads=12, intermediate_size=1536
    )
    return Encoder(BertModel(config), encoder.tokenizer, name=size)


def plans(depth: int) -> dict[str, Plan]:
    return {
        "head only": Plan(layers=(), head=depth),
        "top layer": Plan.span(depth, depth, depth),
        "top 3 layers": Plan.span(depth - 2, depth, depth),
        "lower half": Plan.span(1, depth // 2, depth // 2),
        "full": Plan.full(depth),
    }


def few_rows(glue: Path) -> Task:
    task = load_task("glue/sst2", data_dir=glue)
    few = {name: sample(task.splits[name], count, seed=0) for name, count in ROWS.items()}
    return dataclasses.replace(task, **few, test=None)


@contextlib.contextmanager
def own_cache() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as place:
        before = os.environ.get("FROSTLINE_CACHE")
        os.environ["FROSTLINE_CACHE"] = place
        try:
            yield
        finally:
            del os.environ["FROSTLINE_CACHE"]
            if before is not None:
                os.environ["FROSTLINE_CACHE"] = before


def tune(encoder: Encoder, task: Task, plan: Plan) -> float:
    """Seconds of a whole run, from texts on."""
    with own_cache():
        gc.collect()
        started = time.perf_counter()
        execute(SharedInputs(encoder, task), plan, RECIPE, settings=Settings())
        return time.perf_counter() - started


def resident(what: str) -> int:
    """Bytes that this process holds (VmRSS), or at most held since it was reset (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{what}:")]
    return 1024 * int(line.split()[1])


def in_this_process(size: str, plan: str, rows: str) -> None:
    """Print the most bytes that one run takes over what is held after the imports."""
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # VmHWM starts anew
    data = json.loads(Path(rows).read_text(encoding="utf-8"))
    splits = {name: Split(**{key: tuple(values) for key, values in split.items()}) for name, split in data.items()}
    task = Task(
        name="sst2",
        kind="classification",
        label_names=("negative", "positive"),
        train=splits["train"],
        validation=splits["validation"],
        test=None,
        metrics=("accuracy",),
        source="",
    )
    encoder = make_encoder(size)
    tune(encoder, task, plans(encoder.depth)[plan])
    print(resident("VmHWM") - before)


def in_a_process(size: str, plan: str, task: Task, threads: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.json"
        split = {
            name: {"texts": some.texts, "labels": some.labels, "rows": some.rows} for name, some in task.splits.items()
        }
        rows.write_text(json.dumps(split), encoding="utf-8")
        command = [sys.executable, __file__, "--threads", str(threads), "--one", size, plan, str(rows)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compare(size: str, task: Task, threads: int) -> list[tuple[float, float]]:
    """For each plan by which factor seconds are off, and by which share memory is."""
    encoder = make_encoder(size)
    tune(encoder, task, Plan(layers=(), head=1))  # what is imported late is imported now
    errors = []
    load = make_workload(SharedInputs(encoder, task))
    costs = Costs(encoder.config, load, RECIPE)
    costs.speed = calibrate(encoder, costs)
    for name, plan in plans(encoder.depth).items():
        cost: Cost = costs.of(plan)
        seconds = tune(encoder, task, plan)
        memory = in_a_process(size, name, task, threads)
        assert cost.seconds is not None
        print(
            f"{size:18s} {name:14s} {cost.seconds:8.2f} s {seconds:8.2f} s {cost.seconds / seconds:7.2f} x "
            f"{cost.memory / 1e6:10.0f} MB {memory / 1e6:8.0f} MB {cost.memory / memory:7.2f} x",
            flush=True,
        )
        errors.append((max(cost.seconds / seconds, seconds / cost.seconds), abs(cost.memory / memory - 1)))
    return errors


def main() -> None:
    """Compare all, or run one plan for its memory."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", type=Path, nargs="?")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--one", nargs=3, metavar=("SIZE", "PLAN", "ROWS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.one is not None:
        in_this_process(*options.one)
        return
    if options.glue is None:
        parser.error("give the folder of the official GLUE files")
    task = few_rows(options.glue)
    print(f"{options.threads} threads; predicted, measured and their ratio: seconds, memory")
    found = [pair for size in SIZES for pair in compare(size, task, options.threads)]
    seconds, memory = (max(each) for each in zip(*found, strict=True))
    print(json.dumps({"worst_seconds_factor": round(seconds, 3), "worst_memory_error": round(memory, 3)}))


if __name__ == "__main__":
    main()
