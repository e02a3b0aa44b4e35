"""What tests of reports share: folders of every kind, made without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.records.made_up import measured_encoder, measured_task
from tests.studies.test_figures import DRAWN, read_table

from frostline.records import LayerScore, LayerScores, Plan, TrialResult
from frostline.trials.store import Store

ABOUT = {"format": 1, "versions": {"python": "3"}, "seed": 0, "threads": 1}


def make_study(folder: Path, name: str, *, is_over: bool = True, families: dict[str, str] | None = None) -> Path:
    """A study's folder with the tables that its figures are tested with."""
    folder.mkdir(parents=True)
    asked = {"study": name, "encoders": {"tiny": "abc"}, "tasks": {"letters": ["f00d", "accuracy"]}, "seeds": 2,
             "families": families or {}}  # fmt: skip
    (folder / "study.json").write_text(json.dumps(asked))
    Store(folder / "store.sqlite").close()
    if is_over:
        found = [read_table(path).to_json() for path in sorted((DRAWN / name).glob("*.csv"))]
        (folder / "tables.json").write_text(json.dumps(found))
        about = {**ABOUT, "kind": "study", "command": ["frostline", "study", name]}
        (folder / "frostline.json").write_text(json.dumps(about))
    return folder


def some_scores(name: str = "letters") -> LayerScores:
    """A measurement of three layers, with an interval, what chance gives, and similarities."""
    values = (3.0, 2.0, 1.0, 1.2)
    score = LayerScore(
        name="variability", better="low", values=values, low=tuple(value - 0.3 for value in values),
        high=tuple(value + 0.3 for value in values), tied=(2, 3), nulls={"shuffled": (9.0, 9.0, 9.0, 9.0)},
        summary="How spread out classes are.", paper="1",
    )  # fmt: skip
    alone = LayerScore(name="fisher", better="high", values=(None, 0.1, 0.2, 0.9), summary="How much it matters.")
    matrix = tuple(tuple(1 - abs(one - other) / 10 for other in range(4)) for one in range(4))
    return LayerScores(
        encoder=measured_encoder(3), task=measured_task(name),
        pooling="mean", rows="train", examples=100, max_length=512, truncated=0, seed=0,
        scores={"variability": score, "fisher": alone}, similarity={"mean": matrix}, notes=("a note",),
    )  # fmt: skip


def make_measurement(folder: Path, scores: LayerScores | None = None) -> Path:
    """A measurement's folder."""
    folder.mkdir(parents=True)
    (folder / "scores.json").write_text(json.dumps((scores or some_scores()).to_json()))
    about = {**ABOUT, "kind": "measurement", "command": ["frostline", "measure", "my data.csv"]}
    (folder / "frostline.json").write_text(json.dumps(about))
    return folder


def make_tuned(folder: Path, *, kind: str = "classification") -> Path:
    """The folder of a model that was tuned without a race."""
    folder.mkdir(parents=True)
    is_number = kind == "regression"
    metric = "pearson" if is_number else "accuracy"
    result = {
        "encoder": {"name": "tiny", "revision": "abc", "layers": 3},
        "task": {"name": "letters", "kind": kind, "labels": ["no", "yes"], "metrics": [metric]},
        "plan": Plan.span(2, 2, 2, because="it was asked for").to_json(),
        "parameters": {"total": 1000, "trainable": 100},
        "metrics": {"validation": {metric: 0.75}, "test": {metric: 0.5}},
    }
    rows = []
    for row in range(8):
        said: dict[str, Any] = {"split": "test", "row": row, "text": f"text {row}"}
        if is_number:
            said |= {"label": row / 2, "prediction": row / 2 + (3.0 if row == 5 else 0.25), "probabilities": None}
        else:
            sure = 0.5 + row / 20
            guess, other = ("yes", "no") if row % 3 else ("no", "yes")
            said |= {"label": "yes", "prediction": guess, "probabilities": {guess: sure, other: 1 - sure}}
        rows.append(said)
    history = [{"epoch": epoch, "loss": 1 / epoch, f"validation_{metric}": value, "validation_loss": 0.5}
               for epoch, value in ((1.0, 0.6), (2.0, 0.75), (3.0, 0.7))]  # fmt: skip
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "predictions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, history)))
    (folder / "frostline.json").write_text(json.dumps({**ABOUT, "kind": "tuned", "command": ["frostline", "tune"]}))
    return folder


def make_run(folder: Path) -> Path:
    """The folder of a run of three plans, in which a cheap one is chosen."""
    make_tuned(folder)
    plans = [
        Plan.span(2, 3, 3, because="the best layer"),
        Plan.full(3),
        Plan(layers=(), head=2, because="the cheapest"),
    ]
    found = ((0.80, 20.0, 300), (0.81, 60.0, 900), (0.70, 2.0, 30))
    race = [
        {"trial": f"trial-{place}", "plan": plan.to_json(), "sources": ["top-k:k=2"], "train_rows": 100, "epochs": 3,
         "learning_rate": 1e-4, "validation": {"accuracy": value}, "seconds": seconds}
        for place, (plan, (value, seconds, _)) in enumerate(zip(plans, found, strict=True))
    ]  # fmt: skip
    proposals = [{"plan": plan.to_json(), "cost": {"trainable": trainable, "latency": 1.0}}
                 for plan, (_, _, trainable) in zip(plans, found, strict=True)]  # fmt: skip
    gap = {"value": -0.5, "low": -1.5, "high": 0.5}
    tests = [
        {"name": "the choice", "trial": "trial-0", "metrics": {"accuracy": 0.79}, "low": 0.77, "high": 0.81,
         "choice_minus_it": None},
        {"name": "full fine-tuning", "trial": "trial-1", "metrics": {"accuracy": 0.795}, "low": 0.775, "high": 0.815,
         "choice_minus_it": gap},
    ]  # fmt: skip
    run = {
        "encoder": {"name": "tiny", "layers": 3}, "task": {"name": "letters", "metric": "accuracy"},
        "plan": plans[0].to_json(), "given_up": ["little"], "notes": ["a note"], "seconds": {"race": 82.0},
        "decision": {"chosen": "trial-0", "best": "trial-1", "why": ["it is cheap"],
                     "against_best": {"trial-0": {"points": -1.0, "low": -2.0, "high": 0.0}}},
        "tests": tests, "race": [race], "failed": [], "proposals": proposals,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "scores.json").write_text(json.dumps(some_scores().to_json()))
    (folder / "frostline.json").write_text(json.dumps({**ABOUT, "kind": "run", "command": ["frostline", "run"]}))
    return folder


def failed(reason: str) -> TrialResult:
    """A trial that failed."""
    return TrialResult(status="failed", reason=reason)


def told(folder: Path, name: str) -> Any:
    """The content of a JSON file."""
    return json.loads((folder / name).read_text())
