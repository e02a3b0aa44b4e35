"""At full size, every study does what its paper did: its trials are compared with the papers' protocols.

Nothing is trained: the trials are generated for the papers' own encoders, without weights and rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from docs.full_size import official_encoder, points_of, read_command
from tests.studies.protocols import (
    PROTOCOLS,
    TAMKIN_EPOCHS,
    TAMKIN_SIZES,
    TAMKIN_TRIALS,
    XIE_BOTTLENECK,
    XIE_PROBE_RATES,
    XIE_ROWS,
    Arms,
    Protocol,
)

from frostline.studies import STUDIES, Point
from frostline.studies._choices import choices_of

# Facts ---------------------------------------------------------------------------------------------------------------


def expected(protocol: Protocol) -> dict[str, Any]:
    """The facts of a protocol, by name."""
    facts: dict[str, Any] = {"tasks and metrics": dict(protocol.tasks), "arms that are not declared": []}
    facts["chosen on validation rows"] = sorted(protocol.chosen)
    facts |= {f"recipe {name}": [value] for name, value in {**protocol.recipe, **protocol.unstated}.items()}
    facts |= {f"{name} is declared unstated": True for name in protocol.unstated}
    facts |= {f"option {name}": value for name, value in protocol.options.items()}
    for arms in protocol.arms:
        facts |= {f"{label(arms)} {name}": value for name, value in expected_of(arms).items()}
    return facts


def expected_of(arms: Arms) -> dict[str, Any]:
    if arms.is_ours:
        return {}
    facts: dict[str, Any] = {"have trials": True}
    facts |= {"rates": sorted(arms.rates)} if arms.rates else {}
    facts |= {"trials": [arms.trials]} if arms.trials else {}
    facts |= {"length": [(arms.epochs, arms.steps)]} if arms.epochs or arms.steps else {}
    facts |= {"rows": [arms.rows]} if not arms.varies else {}
    facts |= {"plans": [arms.plans]} if arms.plans else {}
    return facts | ({"use the rate of others": []} if arms.like else {})


def found(protocol: Protocol, points: Sequence[Point]) -> dict[str, Any]:
    """The same facts of the study's trials."""
    study, asked = read_command(protocol.command)
    options = study.options(asked.options)
    groups: dict[Arms, list[Point]] = {arms: [] for arms in protocol.arms}
    unknown = set()
    for point in points:
        arms = next((arms for arms in protocol.arms if fits(arms, point)), None)
        if arms is None:
            unknown.add(point["arm"])
        else:
            groups[arms].append(point)
    theirs = [point for arms, group in groups.items() if not arms.is_ours for point in group]
    facts: dict[str, Any] = {
        "tasks and metrics": {point.spec.task.name: point.spec.task.metrics[0] for point in points},
        "arms that are not declared": sorted(unknown),
        "chosen on validation rows": sorted(choices_of(points)),
    }
    facts |= {f"recipe {name}": distinct(field_of(point, name) for point in theirs)
              for name in (*protocol.recipe, *protocol.unstated)}  # fmt: skip
    facts |= {f"{name} is declared unstated": name in getattr(study, "unstated", {}) for name in protocol.unstated}
    facts |= {f"option {name}": options.get(name, "there is no such option") for name in protocol.options}
    for arms, group in groups.items():
        facts |= {f"{label(arms)} {name}": value for name, value in found_of(arms, group, points).items()}
    return facts


def found_of(arms: Arms, group: Sequence[Point], points: Sequence[Point]) -> dict[str, Any]:
    seeds: dict[Any, set[int]] = {}
    plans: dict[Any, set[str]] = {}
    for point in group:
        seeds.setdefault((point["task"], point["arm"], point.spec.recipe.learning_rate), set()).add(point["seed"])
        plans.setdefault(point["task"], set()).add(f"{point.spec.plan.identity()} {point.spec.surgery}")
    return {
        "have trials": bool(group),
        "rates": distinct(point.spec.recipe.learning_rate for point in group),
        "trials": distinct(len(of_rate) for of_rate in seeds.values()),
        "length": distinct(length(point) for point in group),
        "rows": distinct(point.spec.train_rows for point in group),
        "plans": distinct(len(of_task) for of_task in plans.values()),
        "use the rate of others": list(other_rates(arms, group, points)) if arms.like else [],
    }


def other_rates(arms: Arms, group: Sequence[Point], points: Sequence[Point]) -> Iterator[str]:
    """Points whose rate is not the one that was chosen for the arm that they follow."""
    chosen = {
        (point["task"], point["arm"], point["seed"]): point.spec.recipe.learning_rate
        for point in points
        if not point.is_candidate
    }
    for point in group:
        like = arms.like.format("".join(re.findall(r"\d+", point["arm"])))
        if point.spec.recipe.learning_rate != chosen[point["task"], like, point["seed"]]:
            yield f"{point['task']}, {point['arm']}, seed {point['seed']}"


def fits(arms: Arms, point: Point) -> bool:
    return bool(re.fullmatch(arms.names, point["arm"])) and (not arms.tasks or point["task"] in arms.tasks)


def field_of(point: Point, name: str) -> Any:
    """A field of a point's recipe; the dropout is the encoder's own unless it is set."""
    value = getattr(point.spec.recipe, name)
    if name == "dropout" and value is None:
        return float(official_encoder(point["encoder"]).config.hidden_dropout_prob)
    return value


def length(point: Point) -> tuple[int | None, int | None]:
    recipe = point.spec.recipe
    return (None, recipe.steps) if recipe.steps else (recipe.epochs, None)


def distinct(values: Any) -> list[Any]:
    return sorted(set(values), key=lambda value: (value is None, value))


def label(arms: Arms) -> str:
    return f"arms {arms.names}" + (f" on {', '.join(arms.tasks)}" if arms.tasks else "") + ":"


@cache
def trials_of(name: str) -> dict[str, Any]:
    return found(PROTOCOLS[name], points_of(PROTOCOLS[name].command))


def differences(protocol: Protocol) -> dict[str, tuple[Any, Any]]:
    """What the paper says and what the study does, where they differ."""
    ours = found(protocol, points_of(protocol.command))
    return {fact: (value, ours[fact]) for fact, value in expected(protocol).items() if ours[fact] != value}


# Tests ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "fact"), [(name, fact) for name in PROTOCOLS for fact in expected(PROTOCOLS[name])])
def test_the_full_size_study_does_what_its_paper_did(name, fact):
    assert trials_of(name)[fact] == expected(PROTOCOLS[name])[fact]


def test_every_study_has_a_protocol_and_every_protocol_says_where_it_is_from():
    assert {protocol.study for protocol in PROTOCOLS.values()} == set(STUDIES.names())
    for protocol in PROTOCOLS.values():
        assert protocol.sources


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("Lee, RoBERTa-base", {"recipe": {"batch": 32, "epochs": 3}}),
        ("Lodha, surgical", {"seeds": 3}),
        ("Xie, fine-tuning", {"recipe": {"batch": 8, "epochs": 20, "schedule": "constant"}}),
        ("Tamkin, permutations", {"tasks": ("glue/sst2", "glue/cola")}),
        ("Phang, skip, FacebookAI/roberta-base", {"recipe": {"batch": 4, "steps": 5000, "warmup": 0.1}}),
        ("Lodha, ranking", {"defaults": {**STUDIES["ranking"].defaults, "examples": 50}}),
    ],
)
def test_a_change_of_a_default_is_noticed(name, change, monkeypatch):
    protocol = PROTOCOLS[name]
    before = {fact for fact, value in expected(protocol).items() if trials_of(name)[fact] != value}
    monkeypatch.setattr(STUDIES, "_entries", dict(STUDIES.items()))
    STUDIES._entries[protocol.study] = replace(STUDIES[protocol.study], **change)
    assert set(differences(protocol)) - before


@pytest.mark.parametrize("task", XIE_PROBE_RATES)
def test_the_probe_of_xie_has_the_papers_rate_on_every_task(task):
    points = points_of(PROTOCOLS["Xie, probing"].command)
    of_task = [point for point in points if point["task"] == task and not point.is_candidate]
    rates = {point.spec.options.get("probe_rate", 1e-3) for point in of_task}
    assert rates == {XIE_PROBE_RATES[task]}


def test_adapters_have_the_papers_bottleneck_and_its_activation():
    plans = [point.spec.plan for point in points_of(PROTOCOLS["Xie, adapters"].command)]
    assert {plan.method for plan in plans} == {"houlsby"}
    assert {plan.options["bottleneck"] for plan in plans} == {XIE_BOTTLENECK}
    assert {plan.options.get("activation") for plan in plans} == {"relu"}  # the implementation of appendix B.2


@pytest.mark.parametrize(("task", "arm"), XIE_ROWS)
def test_robustness_draws_the_papers_rows_of_each_class(task, arm):
    points = points_of(PROTOCOLS["Xie, robustness"].command)
    drawn = [point.spec.options["settings"] for point in points if (point["task"], point["arm"]) == (task, arm)]
    assert [list(settings.values()) for settings in drawn] == [XIE_ROWS[task, arm]] * 5


@pytest.mark.parametrize("task", TAMKIN_SIZES)
def test_incremental_trials_have_the_papers_sizes_trials_and_epochs(task):
    points = [point for point in points_of(PROTOCOLS["Tamkin, incremental"].command)
              if point["task"] == task and point["arm"] != "probe"]  # fmt: skip
    assert {point.spec.train_rows for point in points} == TAMKIN_SIZES[task]
    for rows in TAMKIN_SIZES[task]:
        of_size = [point for point in points if point.spec.train_rows == rows]
        assert {point.spec.recipe.epochs for point in of_size} == {TAMKIN_EPOCHS[rows]}
        assert len(of_size) == 13 * TAMKIN_TRIALS[rows]
