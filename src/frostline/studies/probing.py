"""Layer scores next to probes, before and after fine-tuning, papers 1 and 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from frostline import folders
from frostline.encoder import Encoder
from frostline.errors import MeasureError, OptionError
from frostline.measured_rows import Rows
from frostline.measurement import EXAMPLES, measure
from frostline.records import LayerScores, Plan, TrialResult, TrialSpec
from frostline.runner.kinds import trial_kind, tune_for
from frostline.runner.materials import Bench
from frostline.runner.statistics import correlate, holm, summarise, summarise_correlations
from frostline.runner.trials import result_of
from frostline.scores import LAYER_SCORES
from frostline.states.pooled import Pooling
from frostline.studies import Ask, Measured, Point, study
from frostline.studies.probing_figures import HELD_OUT as HELD_OUT
from frostline.studies.probing_figures import PRETRAINED as PRETRAINED
from frostline.studies.probing_figures import PROBES, figures
from frostline.studies.probing_figures import TUNED as TUNED
from frostline.studies.released import one_pooling
from frostline.studies.tables import grouped, is_optimistic, judged_split
from frostline.table import Cell, Table, table_of
from frostline.tasks import Task
from frostline.tunable import as_tuned
from frostline.workshop import Report

Curve = Sequence[float | None]  # over layers 0..L

_ROWS = ("validation", "test")
# Of the head's probe: paper 1's for its tasks, and what most of them have for any other.
_PROBE_RATES = {"glue/qqp": 3e-4, "glue/sst2": 3e-3}
_PROBE_RATE = 1e-3
_CHOOSE_ON = "inner"
_QUICK_SCORES = "variability,variability.crossfit,cca,rank,information,label_similarity,probe.linear,probe.head"


# The trial -----------------------------------------------------------------------------------------------------------


@trial_kind("probing")
def _score(bench: Bench, spec: TrialSpec) -> TrialResult:
    """The curves of all scores, for the encoder as it is or after the plan's fine-tuning."""
    base = TrialResult(status="done", versions=folders.versions())
    encoder = bench.workshop(spec).encoder
    if spec.options["tuned"]:
        tuned = tune_for(bench, spec)
        split, _ = judged_split(tuned.task)
        base, encoder = result_of(tuned), as_tuned(tuned.tunable)
        base = replace(base, predictions={split: base.predictions[split]})
    found = _measured(encoder, _with_fewer_rows(bench, spec), spec, bench.report)
    values = {
        "curves": {name: list(score.values) for name, score in found.scores.items()},
        "examples": found.examples,
        "left_out": [note for note in found.notes if " left out: " in note],
    }
    return replace(base, values=values, seconds={**base.seconds, **found.seconds})


def _with_fewer_rows(bench: Bench, spec: TrialSpec) -> Task:
    """The task with the training rows that fine-tuning with the same seed learns from."""
    task = bench.task(spec)
    if spec.train_rows is None:
        return task
    chosen = bench.workshop(spec).some_rows(spec.train_rows, seed=spec.recipe.seed)
    return replace(task, train=task.train.take(chosen))


def _measured(encoder: Encoder, task: Task, spec: TrialSpec, report: Report) -> LayerScores:
    """The scores asked for, without those that these rows do not allow."""
    wanted = str(spec.options["scores"])
    ask = partial(
        measure,
        encoder,
        task,
        examples=int(spec.options["examples"]),
        rows=cast(Rows, spec.options["rows"]),
        max_length=spec.recipe.max_length,
        pooling=cast(Pooling, spec.options.get("states", "mean")),
        uncertainty=False,
        similarity=False,
        seed=spec.recipe.seed,
        progress=report,
    )
    names = [name.strip() for name in wanted.split(",")]
    options: dict[str, dict[str, float | str]] = {
        "probe.head": {
            "learning_rate": float(spec.options.get("probe_rate", _PROBE_RATE)),
            "choose_on": str(spec.options.get("choose_on", _CHOOSE_ON)),
        }
    }
    if wanted == "all":
        return ask(scores="all", options=options)
    try:
        return ask(scores=names, options={name: given for name, given in options.items() if name in names})
    except MeasureError:
        return _one_by_one(ask, names, options)


def _one_by_one(
    ask: Callable[..., LayerScores], names: Sequence[str], options: Mapping[str, Mapping[str, float | str]]
) -> LayerScores:
    """The scores that can be had: one that needs more rows must not take the others with it."""
    found: list[LayerScores] = []
    notes = []
    for name in names:
        try:
            found.append(ask(scores=[name], options={name: options[name]} if name in options else None))
        except MeasureError as error:
            notes.append(f"{name} left out: {error}")
    if not found:
        raise MeasureError(notes[0])
    scores = {name: score for one in found for name, score in one.scores.items()}
    return replace(found[0], scores=scores, notes=(*found[0].notes, *notes))


# The tables ----------------------------------------------------------------------------------------------------------


def _tables(ask: Ask, points: Sequence[Measured]) -> list[Table]:
    done = [point for point in points if point.is_done]
    left_out = [
        f"{point['encoder']}, {point['task']}, {point['arm']}: {note}"
        for point in done
        for note in point.result.values["left_out"]
    ]
    return [
        table_of(
            "curves",
            "Layer scores and probes by layer",
            _curves(done),
            notes=[
                "no interval where all seeds give the same: a task with few rows is measured on all of them; with "
                "--rows below their number every seed draws its own",
                *dict.fromkeys(left_out),
            ],
        ),
        table_of(
            "agreement",
            "How scores go together with probes over layers",
            _agreements(done),
            notes=[
                "correlations and regression over layers 1..L are those of the mean curves over seeds; "
                "seeds_mean, seeds_low and seeds_high are the mean and t-interval of the seeds' own correlations, on "
                "the z scale",
                "p_holm: corrected by Holm's method within an encoder, task and arm",
            ],
        ),
        table_of(
            "best",
            "The best layer, and where it moves after fine-tuning",
            _moves(done),
            notes=[
                "moved is from the pretrained encoder to the tuned one, both on the held-out rows, paired by seed: "
                "the number of rows shifts scores, so that curves on other rows do not compare",
                "below_top is the share of seeds in which the pretrained encoder's best layer is not the last one",
            ],
        ),
    ]


def curves_of(points: Sequence[Measured]) -> dict[str, list[Curve]]:
    """For every score a curve per point that has it."""
    found: dict[str, list[Curve]] = {}
    for point in points:
        for name, curve in point.result.values["curves"].items():
            found.setdefault(name, []).append(curve)
    return found


def mean_curve(curves: Sequence[Curve]) -> list[float | None]:
    """The mean at each layer over the curves that are defined there."""
    known = [[value for value in at_layer if value is not None] for at_layer in zip(*curves, strict=True)]
    return [sum(values) / len(values) if values else None for values in known]


def _curves(points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    for (encoder, task, arm), group in grouped(points, ("encoder", "task", "arm")).items():
        for name, curves in curves_of(group).items():
            for layer, at_layer in enumerate(zip(*curves, strict=True)):
                known = [value for value in at_layer if value is not None]
                row: dict[str, Cell] = {"encoder": encoder, "task": task, "arm": arm, "score": name, "layer": layer}
                if known:
                    found = summarise(known)
                    row |= {"seeds": found.count, "mean": found.mean}
                    if found.deviation:  # seeds that measured the same rows say nothing of other rows
                        row |= {"low": found.low, "high": found.high}
                yield row


def _agreements(points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    for (encoder, task, arm), group in grouped(points, ("encoder", "task", "arm")).items():
        means = {name: mean_curve(curves) for name, curves in curves_of(group).items()}
        pairs = [(name, probe) for probe in PROBES if probe in means for name in means if name != probe]
        rows: list[dict[str, Cell]] = [
            {
                "encoder": encoder,
                "task": task,
                "arm": arm,
                "score": name,
                "probe": probe,
                **agreement_over_layers(means[name], means[probe]),
                **_over_seeds(group, name, probe),
            }
            for name, probe in pairs
        ]
        values = [cast("float | None", row.get("pearson_p")) for row in rows]
        ranks = [cast("float | None", row.get("spearman_p")) for row in rows]
        for row, corrected, of_ranks in zip(rows, holm(values), holm(ranks), strict=True):
            yield row | {"pearson_p_holm": corrected, "spearman_p_holm": of_ranks}


def agreement_over_layers(score: Curve, probe: Curve) -> dict[str, Cell]:
    """Correlations over layers 1..L and the line through probe against score; None where they are undefined."""
    import numpy as np
    from scipy.stats import linregress

    both = [(x, y) for x, y in zip(score[1:], probe[1:], strict=True) if x is not None and y is not None]
    pearson, pearson_p = correlate(score[1:], probe[1:])
    if pearson != pearson:
        return {"layers": len(both)}
    spearman, spearman_p = correlate(score[1:], probe[1:], ranks=True)
    x, y = np.array(both, dtype=np.float64).T
    line = linregress(x, y)
    return {
        "layers": len(both),
        "pearson": pearson,
        "pearson_p": pearson_p,
        "spearman": spearman,
        "spearman_p": spearman_p,
        "slope": float(line.slope),
        "intercept": float(line.intercept),
        "r_squared": float(line.rvalue) ** 2,
    }


def _over_seeds(points: Sequence[Measured], name: str, probe: str) -> dict[str, Cell]:
    """The t-interval of Pearson's correlation over seeds, on Fisher's z scale so that it stays between -1 and 1."""
    curves = [point.result.values["curves"] for point in points]
    each = [correlate(one[name][1:], one[probe][1:])[0] for one in curves if name in one and probe in one]
    found = summarise_correlations([value for value in each if value == value])
    if found is None:
        return {}
    return {"seeds": found.count, "seeds_mean": found.mean, "seeds_low": found.low, "seeds_high": found.high}


def _moves(points: Sequence[Measured]) -> Iterator[dict[str, Cell]]:
    for (encoder, task), group in grouped(points, ("encoder", "task")).items():
        best = {arm: _best_layers(mine) for (arm,), mine in grouped(group, ("arm",)).items()}
        for name in dict.fromkeys(name for of_arm in best.values() for name in of_arm):
            before, after = best.get(HELD_OUT, {}).get(name, {}), best.get(TUNED, {}).get(name, {})
            row: dict[str, Cell] = {"encoder": encoder, "task": task, "score": name}
            row["layers"] = top = len(next(iter(curves_of(group)[name]))) - 1
            for column, by_seed in (
                ("pretrained", best.get(PRETRAINED, {}).get(name, {})),
                ("held_out", before),
                ("tuned", after),
            ):
                row[column] = sum(by_seed.values()) / len(by_seed) if by_seed else None
            first = best.get(PRETRAINED, {}).get(name, {})
            row["below_top"] = sum(layer < top for layer in first.values()) / len(first) if first else None
            moves = [after[seed] - before[seed] for seed in after if seed in before]
            if moves:
                found = summarise(moves)
                row |= {"seeds": found.count, "moved": found.mean, "moved_low": found.low, "moved_high": found.high}
            yield row


def _best_layers(points: Sequence[Measured]) -> dict[str, dict[int, int]]:
    """By score and seed the best layer, where there is one."""
    found: dict[str, dict[int, int]] = {}
    for point in points:
        for name, curve in point.result.values["curves"].items():
            layer = best_layer(curve, better=LAYER_SCORES[name].better)
            if layer is not None:
                found.setdefault(name, {})[int(point["seed"])] = layer
    return found


def best_layer(curve: Curve, *, better: str) -> int | None:
    """The best of layers 1..L, the lowest of equal ones; None where none is defined."""
    sign = 1 if better == "low" else -1
    known = [(sign * value, layer) for layer, value in enumerate(curve) if layer and value is not None]
    return min(known)[1] if known else None


# The study -----------------------------------------------------------------------------------------------------------


@study(
    paper="1 and 3",
    tables=_tables,
    figures=figures,
    tasks=("glue/cola", "glue/mnli", "glue/mrpc", "glue/qnli", "glue/qqp", "glue/sst2"),
    seeds=5,
    recipe={"batch": 8, "epochs": 20, "warmup": 0.06, "dropout": 0.1},
    quick={"scores": _QUICK_SCORES},
    quick_recipe={"epochs": 2},
    quick_seeds=2,
)
def probing(
    ask: Ask,
    *,
    scores: str = "all",
    examples: int = EXAMPLES,
    held_out: str = "validation",
    probe_rate: float = 0.0,
    states: str = "mean",
) -> Iterator[Point]:
    """Do layers with good scores probe well, and does the best layer move up with fine-tuning?

    Every layer score and two probes, an exact linear one and the family's own head, at every layer: of the pretrained
    encoder on training rows, and of the fully fine-tuned one on rows that it was not tuned on, since it knows those by
    heart. The pretrained encoder is measured on the same held-out rows too, so that what moves is due to fine-tuning.
    Unless the recipe has a learning rate, it is the highest of the paper's, made to suit the encoder's width.

    Options: `scores`, all of them, or names with commas between (the probes among them, for there to be an agreement);
    those that need more rows than there are get left out; `examples`, rows that are measured at most; `held_out`, the
    rows on which the tuned encoder is measured, validation or test; `probe_rate`, the learning rate of the head that is
    trained as a probe, the paper's unless set (1e-3, on QQP 3e-4, on SST-2 3e-3); `states`, what of a text scores and
    probes look at: the 'mean' of all tokens but the first, the 'first', 'all', or 'released', the ids above 2 as the
    script has it. Under the protocol 'paper' that probe's epoch is the one that is best on the rows it is judged on.
    """
    for name in () if scores == "all" else scores.split(","):
        LAYER_SCORES[name.strip()]
    if examples < 2:
        raise OptionError(f"study probing: option examples {examples} must be 2 or more")
    if held_out not in _ROWS:
        raise OptionError(f"study probing: option held_out {held_out!r} must be one of {', '.join(_ROWS)}")
    if probe_rate < 0:
        raise OptionError(f"study probing: option probe_rate {probe_rate} must be above 0, or 0 for the paper's")
    arms: Mapping[str, tuple[str, bool]] = {
        PRETRAINED: ("train", False),
        HELD_OUT: (held_out, False),
        TUNED: (held_out, True),
    }
    for encoder, task in ask.pairs():
        # The highest of the paper's rates for full fine-tuning, which are for a width of 1,024.
        rate = ask.recipe.learning_rate or round(2e-5 * 1024 / encoder.width, 7)
        # Options that came later are part of a trial where they differ from what trials did before.
        later = {
            name: value
            for name, value, before in (
                ("probe_rate", probe_rate or _PROBE_RATES.get(task.name, _PROBE_RATE), _PROBE_RATE),
                ("choose_on", "held-out" if is_optimistic(task) else _CHOOSE_ON, _CHOOSE_ON),
                ("states", one_pooling("probing", states), "mean"),
            )
            if value != before
        }
        for seed in range(ask.seeds):
            for arm, (rows, is_tuned) in arms.items():
                yield ask.point(
                    encoder,
                    task,
                    Plan.full(encoder.depth) if is_tuned else Plan(layers=(), head=encoder.depth),
                    arm=arm,
                    seed=seed,
                    kind="probing",
                    options={"scores": scores, "examples": examples, "rows": rows, "tuned": is_tuned, **later},
                    learning_rate=rate,
                    epochs=ask.recipe.epochs if is_tuned else 1,
                )
