"""Reading a tuned model at every layer, as in Phang et al. 2021."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from frostline.encoders.heads import FamilyHead, MeanHead
from frostline.records import Plan, TrialResult, TrialSpec
from frostline.studies import Ask, Point, study
from frostline.studies._options import check_at_least, check_choice
from frostline.studies._phang import PHANG_RECIPE, PHANG_SELECTION, PHANG_TASKS
from frostline.studies._results import judged_result
from frostline.studies._tables import judged_split
from frostline.studies._unstated import PHANG_UNSTATED
from frostline.studies.skip import outputs_without
from frostline.studies.truncate.figures import figures
from frostline.studies.truncate.heads import fresh_heads, further_heads, head_recipe, read_by, rows_at_all_layers
from frostline.studies.truncate.reproduces import COUNTERPARTS
from frostline.studies.truncate.tables import tables
from frostline.training.dataset import Examples
from frostline.training.loop import judge
from frostline.training.model import Tunable, as_tuned
from frostline.training.result import Tuned
from frostline.trials.context import Context, TrialKind
from frostline.trials.results import decode_outputs
from frostline.trials.run_trial import tune_for

_STARTS = ("fresh", "tuned")


def _truncate(context: Context, spec: TrialSpec) -> TrialResult:
    """Tune a model, then read it at every layer: by its head as it is, by its head trained further, and by others."""
    tuned = tune_for(context, spec)
    split, _ = judged_split(tuned.task)
    whole = tuned.outputs[split]
    own = _own_head(tuned.tunable, context.shared(spec).examples(tuned.tunable, split))
    outputs = {"UNTUNED": [*own, whole], **_trained_heads(context, spec, tuned)}
    labels = torch.tensor(tuned.task.splits[split].labels)
    metrics, kind = tuned.task.metrics, tuned.task.kind
    readings = {
        arm: [
            {"metrics": judge(logits, labels, metrics, kind), "predictions": list(decode_outputs(logits, kind))}
            for logits in layers
        ]
        for arm, layers in outputs.items()
    }
    return judged_result(tuned, readings)


def _own_head(tunable: Tunable, rows: Examples) -> list[Tensor]:
    """Return the outputs of the tuned head and pooler at each of layers 1..L-1, without training."""
    depth = tunable.plan.head
    spans = [(layer + 1, depth) for layer in range(1, depth)]
    return list(outputs_without(tunable, rows, spans).values()) if spans else []


def _trained_heads(context: Context, spec: TrialSpec, tuned: Tuned) -> dict[str, list[Tensor]]:
    """Return the outputs at each of layers 1..L of the arms whose heads are trained."""
    shared, task, options = context.shared(spec), tuned.task, spec.options
    head, recipe = tuned.tunable.head, head_recipe(tuned.recipe, options)
    assert isinstance(head, FamilyHead | MeanHead)  # noqa: S101 (of one model)
    rows_of = partial(rows_at_all_layers, shared, recipe=recipe, train_rows=spec.train_rows, reads=head.reads)
    read = partial(read_by, task=task, recipe=recipe, progress=context.progress)
    encoder, depth = as_tuned(tuned.tunable), spec.plan.head
    rows = rows_of(encoder)
    outputs = {"TUNED": read(further_heads(head, depth), encoder, rows)}
    if options["fresh"]:
        outputs["FRESH"] = read(fresh_heads(encoder, task, recipe), encoder, rows)
    encoder = shared.encoder
    rows = rows_of(encoder)
    start = further_heads(head, depth) if options["orig_start"] == "tuned" else fresh_heads(encoder, task, recipe)
    return {**outputs, "TUNEDORIG": read(start, encoder, rows)}


@study(
    kinds=[TrialKind(name="truncate", run=_truncate, tunings=1.5)],
    paper="Phang et al. 2021",
    reproduces=COUNTERPARTS,
    tables=tables,
    figures=figures,
    tasks=PHANG_TASKS,
    seeds=3,
    recipe=PHANG_RECIPE,
    unstated=PHANG_UNSTATED,
    selection=PHANG_SELECTION,
    quick_recipe={"batch": 16, "epochs": 3},
    quick={"rate": 5e-5, "head_rate": 1e-3, "head_epochs": 5},
)
def truncate(
    ask: Ask,
    *,
    rate: float = 1e-5,
    head_rate: float = 0.0,
    head_epochs: int = 0,
    orig_start: str = "fresh",
    fresh: bool = False,
) -> Iterator[Point]:
    """How many top layers of a tuned model are dispensable, with its head as it is or trained further?

    A fully tuned model is read at every layer by its own head, with its pooler: without training (UNTUNED), and trained
    further on the layer's frozen states (TUNED). Heads on the pretrained model's states show how much tuned states gain
    (TUNEDORIG). The paper states neither the recipe of these heads nor where those of TUNEDORIG start: here they train
    by the recipe of the whole model, and TUNEDORIG starts fresh, as a pretrained model has no head for the task.

    Options: `rate`, learning rate for encoders of width 768, the paper's by default (narrower encoders get a
    proportionally higher rate; a rate in the recipe takes precedence); `head_rate`, learning rate of the heads, 0 for
    that of the whole model; `head_epochs`, epochs of the heads, 0 for the epochs or steps of the whole model;
    `orig_start`, whether the heads of TUNEDORIG start 'fresh' or from the 'tuned' head; `fresh`, also train fresh heads
    on the tuned model's states (FRESH), which is not in the paper.
    """
    check_at_least(0, "truncate", head_rate=head_rate, head_epochs=head_epochs)
    check_choice("truncate", "orig_start", orig_start, _STARTS)
    # All options are part of every trial: older trials, whose TUNED had fresh heads, have two of them.
    options = {"head_rate": head_rate, "head_epochs": head_epochs, "orig_start": orig_start, "fresh": fresh}
    for encoder, task, seed in ask.cases():
        yield ask.point(encoder, task, Plan.full(encoder.depth), arm="all layers", seed=seed, kind="truncate",
                        options=options, learning_rate=ask.rate_for(encoder, rate))  # fmt: skip
