"""The probe of Xie et al. 2022: the family's own head on the frozen states of each layer."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from frostline.encoders.dropout import set_dropout
from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import FamilyHead, HeadKind, make_head
from frostline.errors import MeasureError, OptionError
from frostline.records import Recipe
from frostline.scoring.probes.holdout import estimate_metric, finite_states, make_predictions, probe_rows
from frostline.scoring.probes.trained import HeadProbes, make_targets, train_probes
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import layer_score
from frostline.scoring.uncertainty import Estimate


@layer_score(
    fitted=True, better="high", paper="Xie et al. 2022, section 4.1", needs="labels", is_probe=True, name="probe.head"
)
def probe_head(
    evidence: Evidence,
    *,
    uncertainty: bool = True,
    learning_rate: float = 1e-3,
    epochs: int = 10,
    batch: int = 32,
    schedule: Literal["constant", "linear"] = "constant",
    warmup: float = 0.0,
    dropout: float = -1.0,
    choose_on: Literal["inner", "held-out"] = "inner",
) -> Estimate:
    """Held-out task metric of the family's own head, trained on the layer's frozen states, after its best epoch.

    The head of the stock class (dense, activation, projection, with its dropout) reads the pooled state as a text of
    one token; it is trained with AdamW without weight decay. All layers start from the same fresh weights, the last one
    from the checkpoint's own pooler where there is one. Xie et al. 2022 train on the training set and take the epoch
    that is best on the rows they report, the development set, which is optimistic; by default the rows are divided, and
    the epoch is chosen on a tenth of the training rows. The paper's recipe: 20 epochs, batch 8, dropout 0.1, linear
    schedule with warm-up 0.06, rate 1e-3, on QQP 3e-4 and on SST-2 3e-3.

    Args:
        evidence: states, labels, groups and the encoder.
        uncertainty: resample the held-out predictions.
        learning_rate: highest rate of AdamW.
        epochs: number of epochs.
        batch: rows per step.
        schedule: learning rate after warm-up: 'constant', or 'linear' decay to 0.
        warmup: share of the steps over which the learning rate rises from 0.
        dropout: dropout of the head; below 0 for the encoder's own.
        choose_on: 'inner' for a split of its own or a part of the training rows, or 'held-out' for the judged rows, as
            in the paper.
    """
    encoder = evidence.encoder
    if encoder is None:
        raise MeasureError("probe.head needs the encoder, whose head it trains, not only its states")
    if choose_on not in ("inner", "held-out"):
        raise OptionError(f"choose_on {choose_on!r}: must be 'inner' or 'held-out'")
    if dropout >= 1:
        raise OptionError(f"dropout {dropout!r}: must be below 1; below 0 for the encoder's own")
    recipe = Recipe(epochs=epochs, batch=batch, schedule=schedule, warmup=warmup, seed=evidence.seed)
    layers = len(finite_states(evidence, evidence.pooling))
    rows = probe_rows(evidence, choose_on=choose_on)
    targets = make_targets(rows.training)

    def judge(outputs: Tensor) -> Tensor:
        return make_predictions(rows.check, targets.decode(outputs), targets.classes).values()

    outputs = train_probes(
        HeadProbes([_head(encoder, evidence, targets.outputs, layer, dropout=dropout) for layer in range(layers)]),
        evidence.pooling,
        targets,
        rows,
        recipe,
        judge=judge,
        learning_rate=learning_rate,
    )
    held_out = make_predictions(rows.held, targets.decode(outputs), targets.classes)
    return estimate_metric([held_out], seed=evidence.seed, uncertainty=uncertainty)


def _head(encoder: Encoder, evidence: Evidence, outputs: int, layer: int, *, dropout: float) -> FamilyHead:
    """Return the family's head for one layer, with this dropout unless it is below 0."""
    kind: HeadKind = "classification" if evidence.has_classes else "regression"
    head = make_head(encoder, labels=outputs, kind=kind, layer=layer, seed=evidence.seed)
    if layer == encoder.depth and encoder.family.final_norm_path:
        # State L is already the output of the final norm.
        setattr(head.stock.base_model, encoder.family.final_norm_path, nn.Identity())
    if dropout >= 0:
        set_dropout(head, dropout, family=encoder.family)
    return head
