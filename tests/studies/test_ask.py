"""What a study asks of the results that exist already: the best setting, and rates for an encoder."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from frostline.records import Plan, Recipe, TaskRef, TrialResult, TrialSpec
from frostline.records.encoder_and_task import EncoderRef
from frostline.studies import Ask, Point


def ask(qualities, *, metric="accuracy", learning_rate=None):
    """A request whose trials have these qualities on validation by rate and seed: None if failed, absent if missing."""

    def known(spec):
        key = (spec.recipe.learning_rate, spec.recipe.seed)
        if key not in qualities:
            return None
        if qualities[key] is None:
            return TrialResult(status="failed", reason="on purpose")
        return TrialResult(status="done", metrics={"validation": {metric: qualities[key]}})

    given = {"encoders": (), "tasks": (), "seeds": 2, "rows": None, "known": known, "scores": None}
    return Ask(recipe=Recipe(learning_rate=learning_rate), **given)


def candidates(*rates, seeds=2, metric="accuracy"):
    return {rate: [Point(spec=spec(rate, seed, metric), labels={}) for seed in range(seeds)] for rate in rates}


def spec(rate, seed, metric):
    return TrialSpec(
        encoder=EncoderRef(name="tiny", revision="1"),
        task=TaskRef(name="letters", fingerprint="2", metrics=(metric,)),
        plan=Plan.full(2),
        recipe=Recipe(learning_rate=rate, seed=seed),
    )


def test_the_setting_with_the_best_mean_over_seeds_is_chosen_once():
    qualities = {(1e-5, 0): 0.9, (1e-5, 1): 0.5, (2e-5, 0): 0.8, (2e-5, 1): 0.7}
    asked = ask(qualities)
    assert asked.best_over_seeds(candidates(1e-5, 2e-5)) == 2e-5
    assert asked.best([points[0] for points in candidates(1e-5, 2e-5).values()]).spec.recipe.learning_rate == 1e-5


def test_a_metric_that_falls_as_quality_rises_is_turned_round():
    qualities = {(1e-5, 0): 0.9, (1e-5, 1): 0.5, (2e-5, 0): 0.8, (2e-5, 1): 0.7}
    chosen = ask(qualities, metric="mse").best_over_seeds(candidates(1e-5, 2e-5, metric="mse"))
    assert chosen == 1e-5


def test_nothing_is_chosen_while_a_result_is_missing():
    qualities = {(1e-5, 0): 0.9, (1e-5, 1): 0.5, (2e-5, 0): 0.8}
    assert ask(qualities).best_over_seeds(candidates(1e-5, 2e-5)) is None


def test_a_setting_with_a_failed_trial_comes_last():
    qualities = {(1e-5, 0): 0.99, (1e-5, 1): None, (2e-5, 0): 0.2, (2e-5, 1): 0.3}
    assert ask(qualities).best_over_seeds(candidates(1e-5, 2e-5)) == 2e-5
    everything_failed = dict.fromkeys(qualities)
    assert ask(everything_failed).best_over_seeds(candidates(1e-5, 2e-5)) == 1e-5


def test_the_first_of_equals_is_chosen():
    qualities = dict.fromkeys([(rate, seed) for rate in (1e-5, 2e-5) for seed in (0, 1)], 0.5)
    assert ask(qualities).best_over_seeds(candidates(2e-5, 1e-5)) == 2e-5


@pytest.mark.parametrize(("width", "rate"), [(384, 4e-5), (768, 2e-5), (1024, 2e-5)])
def test_a_papers_rate_is_scaled_up_for_narrow_encoders_alone(width, rate):
    assert ask({}).rate_for(SimpleNamespace(width=width), 2e-5) == pytest.approx(rate)
    assert ask({}, learning_rate=7e-5).rate_for(SimpleNamespace(width=width), 2e-5) == 7e-5
