"""Ids of trials: the canonical form is frozen, so that stores, benches and kept models stay valid."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from frostline.records import Plan, Recipe, TrialSpec
from frostline.records import trial_id as form

REGRET = Path(__file__).parents[2] / "bench" / "results" / "regret.jsonl"

# A trial as the first versions wrote it, before there were kinds, surgery, options and numbers of steps.
FIRST: dict[str, Any] = {
    "encoder": {"name": "tiny", "revision": "abc123"},
    "task": {"name": "weather", "fingerprint": "f00d", "metrics": "accuracy"},
    "plan": {"layers": [2, 3], "head": 4, "embeddings": False, "method": "full", "options": {}, "because": "a reason"},
    "recipe": {
        "learning_rate": 0.001, "epochs": 2, "batch": 32, "accumulate": 1, "schedule": "linear", "warmup": 0.06,
        "weight_decay": 0.0, "clip": 1.0, "dropout": None, "frozen_dropout": True, "head": "family",
        "max_length": None, "select": "best", "patience": None, "evaluate_every": None, "new_layer_rate": 1.0,
        "precision": "float32", "cache_dtype": "float16", "threads": 1, "seed": 3,
    },
    "train_rows": 100,
}  # fmt: skip
LATER = {"kind": "tune", "surgery": {}, "options": {}}

# One change each to the trial above.
CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "later fields at their defaults": LATER,
    "revision": {"encoder": {"name": "tiny", "revision": "abc124"}},
    "fingerprint": {"task": {"name": "weather", "fingerprint": "f00e", "metrics": "accuracy"}},
    "metrics": {"task": {"name": "weather", "fingerprint": "f00d", "metrics": "macro_f1,accuracy"}},
    "all rows": {"train_rows": None},
    "kind": {**LATER, "kind": "probe"},
    "surgery": {**LATER, "surgery": {"reinitialise": [5, 6], "keep_norms": True}},
    "options": {**LATER, "options": {"scores": ["cca", "rank"], "rate": 0.5, "nested": {"b": 1, "a": [1, 2]}}},
    "surgery and kind": {"kind": "skip", "surgery": {"keep": [1, 2, 4]}, "options": {"spans": "all"}},
    "full fine-tuning": {"plan": {**FIRST["plan"], "layers": [1, 2, 3, 4], "embeddings": True}},
    "no layers": {"plan": {**FIRST["plan"], "layers": []}},
    "head": {"plan": {**FIRST["plan"], "head": 3}},
    "method": {"plan": {**FIRST["plan"], "method": "lora", "options": {"rank": 2, "targets": "query+value"}}},
    **{
        f"recipe {name}": {"recipe": {**FIRST["recipe"], name: value}}
        for name, value in {
            "learning_rate": None, "head_rate": 0.002, "layer_rates": [0.5, 1.0], "epochs": 3, "steps": 50, "batch": 8,
            "accumulate": 2,
            "schedule": "constant", "warmup": 0.5, "weight_decay": 0.1, "clip": 0.0, "dropout": 0.0,
            "frozen_dropout": False, "lower_dropout": True, "head": "mean", "max_length": 9, "select": "last",
            "patience": 1, "evaluate_every": 5, "new_layer_rate": 2.0, "precision": "bfloat16",
            "cache_dtype": "float32", "train_rows": 9, "rows": "all", "threads": None, "seed": 4,
        }.items()
    },
    "recipe soup": {"recipe": {**FIRST["recipe"], "schedule": "averaged", "soup": [0.5, 1.0]}},
}  # fmt: skip

# Their ids when the form was frozen.
IDS = {
    "nothing": "e5e51d99e090ae41",
    "later fields at their defaults": "e5e51d99e090ae41",
    "revision": "0e6b816b50e758e9",
    "fingerprint": "f9fc1f66d52997ba",
    "metrics": "d38ebab0beaf5d8f",
    "all rows": "09764cc291275800",
    "kind": "9dc39f7fe1b5a509",
    "surgery": "6f55509b85e25ab8",
    "options": "55e65e94ec40ae01",
    "surgery and kind": "d5ad0bca064a1e25",
    "full fine-tuning": "356621a26a0730c6",
    "no layers": "d88dc7affa93ca81",
    "head": "9b5da011f64cc78e",
    "method": "2a132443691acc22",
    "recipe learning_rate": "df68c19fb8fb2a37",
    "recipe head_rate": "bb019417719a7979",
    "recipe layer_rates": "bd07f15fbab9de19",
    "recipe soup": "435ac5f7b7d52c04",
    "recipe epochs": "d53b61409a57542e",
    "recipe steps": "80722932f39a058d",
    "recipe batch": "4cfff56dc15657b4",
    "recipe accumulate": "6870a299ade07d17",
    "recipe schedule": "6d86c3c4f651e774",
    "recipe warmup": "eceb1164ea36d274",
    "recipe weight_decay": "403f4a45bebdb92a",
    "recipe clip": "fd39da8279b6c1d4",
    "recipe dropout": "eb9d48bddf59a2de",
    "recipe frozen_dropout": "dcead8cff262521a",
    "recipe lower_dropout": "2e8c6c52464e4409",
    "recipe head": "3b709a96b4c8a387",
    "recipe max_length": "0abdf0879adeaeb8",
    "recipe select": "bbd38c1a1a0f8ace",
    "recipe patience": "5620fc6ca91c8b77",
    "recipe evaluate_every": "4e64b6234dc5e5a6",
    "recipe new_layer_rate": "528e2ff62f42df30",
    "recipe precision": "4985195663e30758",
    "recipe cache_dtype": "b82c55c789eaee72",
    "recipe train_rows": "ae02e1955ed22a47",
    "recipe rows": "c584bea3bd373ab9",
    "recipe threads": "9e414c5de43b2a0e",
    "recipe seed": "dd4fc961d76cf3d5",
}


def made(changes: dict[str, Any]) -> TrialSpec:
    return TrialSpec.from_json({**FIRST, **changes})


@pytest.mark.parametrize("change", CHANGES)
def test_a_trial_keeps_the_id_that_it_had_when_the_form_was_frozen(change):
    assert made(CHANGES[change]).id == IDS[change]


def test_the_changes_cover_every_field():
    assert {name.removeprefix("recipe ") for name in IDS if name.startswith("recipe ")} == {
        field.name for field in fields(Recipe)
    }
    assert len(set(IDS.values())) == len(IDS) - 1  # all differ but the one that has later fields at their defaults


def test_the_trials_of_the_recorded_benchmark_keep_their_ids():
    lines = [json.loads(line) for line in REGRET.read_text(encoding="utf-8").splitlines()]
    ids = [TrialSpec.from_json(line["spec"]).id for line in lines if "spec" in line]
    named = {trial for line in lines if "about" in line for trial in line["trials"]}
    named |= {line[choice] for line in lines for choice in ("chosen", "best") if choice in line}
    assert len(named) == 297
    assert named <= set(ids)
    assert hashlib.sha256("".join(ids).encode()).hexdigest()[:16] == "fd4408be0f616730"  # all 337, in their order


# Fields that come later ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LaterRecipe(Recipe):
    averaging: float | None = None


@dataclass(frozen=True, kw_only=True)
class LaterPlan(Plan):
    tied: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaterSpec(TrialSpec):
    augmentation: str = "none"


def later_spec(*, recipe: dict[str, Any] | None = None, plan: dict[str, Any] | None = None, **more: Any) -> LaterSpec:
    """The trial with records that have a field more each."""
    old = made({})
    own = {field.name: getattr(old, field.name) for field in fields(old)}
    own["recipe"] = LaterRecipe(**{**{f.name: getattr(old.recipe, f.name) for f in fields(Recipe)}, **(recipe or {})})
    own["plan"] = LaterPlan(**{**{f.name: getattr(old.plan, f.name) for f in fields(Plan)}, **(plan or {})})
    return LaterSpec(**{**own, **more})


def test_a_field_that_is_added_later_leaves_ids_as_they_are_while_it_has_its_default():
    assert later_spec().id == IDS["nothing"]


@pytest.mark.parametrize(
    "set_to", [{"recipe": {"averaging": 0.9}}, {"plan": {"tied": (1, 2)}}, {"augmentation": "back-translation"}]
)
def test_a_field_that_is_added_later_makes_another_trial_where_it_is_set(set_to):
    assert later_spec(**set_to).id not in IDS.values()


def test_the_default_of_a_listed_later_field_may_change_without_two_trials_sharing_an_id(monkeypatch):
    monkeypatch.setattr(form, "LATER_RECIPE_FIELDS", {**form.LATER_RECIPE_FIELDS, "averaging": 0.5})  # the old default
    assert later_spec(recipe={"averaging": 0.5}).id == IDS["nothing"]
    assert later_spec(recipe={"averaging": None}).id != IDS["nothing"]


@pytest.mark.parametrize(
    ("record", "first", "later"),
    [
        (Recipe, form.RECIPE_FIELDS, form.LATER_RECIPE_FIELDS),
        (Plan, form.PLAN_FIELDS, form.LATER_PLAN_FIELDS),
        (TrialSpec, form.TRIAL_FIELDS, form.LATER_TRIAL_FIELDS),
    ],
)
def test_every_field_of_a_record_is_listed_in_the_form(record, first, later):
    """A new field belongs into the list of later ones, with the value at which it is left out for good."""
    assert {field.name for field in fields(record)} == {*first, *later}


def test_names_and_reasons_are_no_part_of_the_form():
    renamed = {
        "encoder": {**FIRST["encoder"], "name": "another name"},
        "task": {**FIRST["task"], "name": "another name"},
        "plan": {**FIRST["plan"], "because": "another reason"},
    }
    assert made(renamed).id == IDS["nothing"]


def test_values_that_json_cannot_tell_apart_give_the_same_id():
    spec = made(CHANGES["surgery"])
    assert replace(spec, surgery={"keep_norms": True, "reinitialise": (5, 6)}).id == IDS["surgery"]


@pytest.mark.parametrize("method", form.LATER_OPTIONS)
def test_a_later_option_of_a_method_is_part_of_the_id_only_where_it_differs(method):
    def of(**options):
        return made({"plan": {**FIRST["plan"], "method": method, "options": {"bottleneck": 4, **options}}}).id

    assert of() == of(activation="gelu", initialisation="truncated")
    assert len({of(), of(activation="relu"), of(initialisation="normal")}) == 3


def test_another_method_s_option_of_the_same_name_is_always_part_of_the_id():
    plans = [{**FIRST["plan"], "method": "mine", "options": given} for given in ({}, {"activation": "gelu"})]
    assert made({"plan": plans[0]}).id != made({"plan": plans[1]}).id
