"""An executor that trains nothing: what a trial finds follows from a checksum of its specification."""

from __future__ import annotations

import json
import math
import zlib

from frostline.records import TrialResult
from frostline.scoring.scores import LAYER_SCORES
from frostline.studies.robustness.tables import SCORES
from frostline.studies.skip import all_spans
from frostline.tasks.metrics import METRICS

LOST = 3  # of hundred trials


class MadeUp:
    """An executor whose models are as good as a checksum of the specification says; few fail."""

    device = "cpu"

    def __init__(self, materials):
        self.tasks = materials.tasks

    def run(self, specs, *, keep=False):
        for spec in specs:
            yield spec, self.answer(spec)

    def answer(self, spec):
        number = checksum(spec)
        if number % 100 < LOST:
            return TrialResult(status="failed", reason="the loss is nan")
        task = self.tasks[spec.task.fingerprint]
        splits = {"validation": task.validation, "test": task.test, **task.more_tests}
        said = {name: answers(rows.labels, number) for name, rows in splits.items()}
        return TrialResult(
            status="done",
            metrics={name: metrics(rows, said[name], task) for name, rows in splits.items()},
            predictions=said,
            history=tuple({"epoch": epoch, "validation_loss": (number % 997) / 997 / epoch} for epoch in (1, 2)),
            parameters={"total": 100, "trainable": 10 * len(spec.plan.layers)},
            seconds={"training": 1.0, "testing": 0.5, "prediction": 0.25},
            values=VALUES.get(spec.kind, lambda *_: {})(spec, task, number),
        )

    def close(self):
        pass


def checksum(spec):
    """A number for the trial that is the same on every machine: no revision, no fingerprint, no reasons."""
    told = spec.to_json()
    told["recipe"]["precision"] = told["recipe"]["precision"] or "float32"  # as studies train where none is given
    options = {key: value for key, value in told["options"].items() if key != "other"}
    said = [{**told["plan"], "because": ""}, told["recipe"], told["surgery"], told["train_rows"], spec.task.name]
    if spec.kind != "tune":
        said += [spec.kind, options, spec.encoder.name.rsplit("/", 1)[-1]]
    return zlib.crc32(json.dumps(said, sort_keys=True).encode())


def answers(labels, number):
    """Wrong for one row in three to one in twelve."""
    step = 3 + number % 10
    return tuple(1 - label if (place + number) % step == 0 else label for place, label in enumerate(labels))


def metrics(rows, said, task):
    return {name: METRICS[name](rows.labels, said) for name in task.metrics}


def wave(number, *places):
    """A value between 0 and 1 that follows from a trial's number and a place."""
    return round(
        0.5 + 0.5 * math.sin(number % 1000 + sum((7 * turn + 1) * place for turn, place in enumerate(places))), 6
    )


def _probing(spec, task, number):
    names = sorted(LAYER_SCORES) if spec.options["scores"] == "all" else spec.options["scores"].split(",")
    curves = {
        name: [wave(number, layer, place) for layer in range(spec.plan.head + 1)] for place, name in enumerate(names)
    }
    return {"curves": curves, "examples": 100, "left_out": []}


def _ranking_tuning(spec, task, number):
    return {"scores": {str(epoch): [wave(number, layer, epoch) for layer in range(spec.plan.head)]
                       for epoch in spec.options["epochs"]}}  # fmt: skip


def _ranking_start(spec, task, number):
    return {"scores": [wave(number, layer) for layer in range(spec.plan.head)]}


def _robustness(spec, task, number):
    layers = range(spec.plan.head + 1)
    curves = {
        setting: {
            f"{score}, {pooling}": [1 + wave(number, layer, place, turn) for layer in layers]
            for turn, score in enumerate(SCORES)
            for pooling in spec.options["states"]
        }
        for place, setting in enumerate(spec.options["settings"])
    }
    return {
        "curves": curves,
        "probes": {one: [wave(number, layer) for layer in layers] for one in spec.options["states"]},
    }


def _matrix(number, turn, depth):
    return [[1.0 if one == other else wave(number, min(one, other), max(one, other), turn) for other in range(depth)]
            for one in range(depth)]  # fmt: skip


def _similarity(spec, task, number):
    names = ("ORIG-ORIG", "FT-ORIG", "FT-FT", "FT[1]-FT[2]")
    return {name: _matrix(number, turn, spec.plan.head) for turn, name in enumerate(names)}


def _across(spec, task, number):
    found = {name: _matrix(number, turn, spec.plan.head) for turn, name in enumerate(("FT-FT", "ORIG-ORIG"))}
    return {**found, "order": wave(number, 1), "p": wave(number, 2)}


def _skip(spec, task, number):
    told = {span: answers(task.test.labels, number + place) for place, span in enumerate(all_spans(spec.plan.head))}
    spans = [[*span, metrics(task.test, said, task)] for span, said in told.items()]
    return {"spans": spans, "predictions": {str(a): list(said) for (a, b), said in told.items() if a == b}}


def _truncate(spec, task, number):
    def reading(turn, layer):
        said = answers(task.test.labels, number + 10 * turn + layer)
        return {"metrics": metrics(task.test, said, task), "predictions": list(said)}

    arms = ("UNTUNED", "TUNED", "TUNEDORIG", *(["FRESH"] if spec.options["fresh"] else []))
    return {arm: [reading(turn, layer) for layer in range(spec.plan.head)] for turn, arm in enumerate(arms)}


def _reinitialise_probe(spec, task, number):
    values = [wave(len(task.train), layer) for layer in range(spec.plan.head + 1)]
    return {"probe": values, "low": [value - 0.01 for value in values], "high": [value + 0.01 for value in values],
            "examples": 100}  # fmt: skip


VALUES = {
    "reinitialise.probe": _reinitialise_probe,
    "probing": _probing,
    "ranking.tuning": _ranking_tuning,
    "ranking.start": _ranking_start,
    "robustness": _robustness,
    "similarity": _similarity,
    "similarity-across": _across,
    "skip": _skip,
    "truncate": _truncate,
}
