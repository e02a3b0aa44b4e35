"""The id of a trial: a hash of a frozen canonical form, so that stores, kept models and benches stay valid.

Every field of the first version is written out here. A field, or an option of a method, that came later is left
out at the value that trials had before it existed; a field that is not listed yet, at its default. Names and reasons
are never part of the form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from frostline.records._json import default_of, plain

if TYPE_CHECKING:
    from frostline.records.plan import Plan
    from frostline.records.recipe import Recipe
    from frostline.records.trial import TrialSpec

PLAN_FIELDS = ("layers", "head", "embeddings", "method", "options", "because")
LATER_PLAN_FIELDS: Mapping[str, Any] = {}
LATER_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "houlsby": {"activation": "gelu", "initialisation": "truncated"},
    "pfeiffer": {"activation": "gelu", "initialisation": "truncated"},
}
RECIPE_FIELDS = (
    "learning_rate", "epochs", "batch", "accumulate", "schedule", "warmup", "weight_decay", "clip", "dropout",
    "frozen_dropout", "head", "max_length", "select", "patience", "evaluate_every", "new_layer_rate", "precision",
    "cache_dtype", "threads", "seed",
)  # fmt: skip
LATER_RECIPE_FIELDS: Mapping[str, Any] = {
    "head_rate": None, "layer_rates": None, "soup": None, "steps": None, "lower_dropout": False, "train_rows": None,
    "rows": "train",
}  # fmt: skip
TRIAL_FIELDS = ("encoder", "task", "plan", "recipe", "train_rows", "kind", "surgery", "options")
LATER_TRIAL_FIELDS: Mapping[str, Any] = {}

_PLAIN_TUNING = {"kind": "tune", "surgery": {}, "options": {}}  # left out together: trials were nothing else at first


def trial_id(spec: TrialSpec) -> str:
    """Return a hash of everything that the trial's result depends on."""
    more = {name: plain(getattr(spec, name)) for name in _PLAIN_TUNING}
    more |= _later(spec, TRIAL_FIELDS, LATER_TRIAL_FIELDS)
    form = [
        spec.encoder.revision,
        spec.task.fingerprint,
        ",".join(spec.task.metrics),
        canonical_plan(spec.plan),
        canonical_recipe(spec.recipe),
        spec.train_rows,
        *([] if more == _PLAIN_TUNING else [more]),
    ]
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()[:16]


def canonical_plan(plan: Plan) -> dict[str, Any]:
    """Return the plan in the form that ids hash; the reason is always empty, as in the first version."""
    form = {name: plain(getattr(plan, name)) for name in PLAN_FIELDS}
    later = LATER_OPTIONS.get(plan.method, {})
    options = {name: value for name, value in form["options"].items() if name not in later or value != later[name]}
    return {**form, "options": options, "because": "", **_later(plan, PLAN_FIELDS, LATER_PLAN_FIELDS)}


def canonical_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe in the form that ids hash."""
    form = {name: plain(getattr(recipe, name)) for name in RECIPE_FIELDS}
    form["precision"] = recipe.precision or "float32"  # the default, which the first version wrote out
    return {**form, **_later(recipe, RECIPE_FIELDS, LATER_RECIPE_FIELDS)}


def _later(record: Any, first: Collection[str], left_out_at: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that came after the first version, unless they have the value at which they are left out."""
    later = {}
    for field in fields(record):
        if field.name in first:
            continue
        value = getattr(record, field.name)
        if value != left_out_at.get(field.name, default_of(field)):
            later[field.name] = plain(value)
    return later
