"""Probes trained by gradient descent: the linear one of Tamkin et al. 2020, the family's head as in Xie et al. 2022."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.tiny import CONFIGS, DEPTH, tiny_encoder
from transformers import get_constant_schedule_with_warmup, get_linear_schedule_with_warmup

from frostline.encoders.heads import make_head
from frostline.errors import MeasureError, OptionError
from frostline.records import Recipe
from frostline.scoring.probes import trained as trained_module
from frostline.scoring.probes.holdout import Part, ProbeRows, probe_rows
from frostline.scoring.probes.trained import HeadProbes, LinearProbes, losses, make_targets, train_probes
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import _tamkin_probe as paper_module
from frostline.scoring.scores import probe_head as head_module
from frostline.scoring.scores import probe_linear as linear_module
from frostline.scoring.scores.probe_head import _head, probe_head
from frostline.scoring.scores.probe_linear import probe_linear
from frostline.scoring.scores.probe_paper import probe_linear_paper


def make_evidence(
    encoder=None, *, rows: int = 200, classes: int = 2, layers: int = DEPTH + 1, apart: float = 2.0, **changes
) -> Evidence:
    """Layers of which only the last but one knows the classes."""
    source = torch.Generator().manual_seed(0)
    labels = torch.arange(rows) % classes
    states = torch.randn(layers, rows, 32, generator=source)
    states[layers - 2] += apart * torch.randn(classes, 32, generator=source)[labels]
    evidence = Evidence(
        states={"mean": states, "all": states},
        labels=labels,
        groups=torch.arange(rows),
        kind="classification",
        metric="accuracy",
        pooling="mean",
        seed=0,
        encoder=encoder,
    )
    return replace(evidence, **changes)


# The training they share ---------------------------------------------------------------------------------------------


def train(states, labels, judge, **changes):
    evidence = make_evidence(states={"mean": states}, labels=labels)
    numbers = torch.arange(len(labels))
    fit, check, held = (
        Part(evidence=evidence, rows=numbers[start:end]) for start, end in ((0, 100), (100, 150), (150, 200))
    )
    rows = ProbeRows(training=fit, fit=fit, check=check, held=held)
    recipe = Recipe(**{"schedule": "constant", "warmup": 0, "epochs": 6, "batch": 20, "seed": 1} | changes)
    probes = LinearProbes(len(states), states.shape[2], 2, seed=0)
    return train_probes(probes, "mean", make_targets(fit), rows, recipe, judge=judge, learning_rate=0.02)


def test_layers_trained_together_equal_each_trained_alone():
    evidence = make_evidence()
    states, labels = evidence.states["mean"], evidence.labels

    def judge(outputs):
        return -losses(outputs, labels[100:150]).double()

    together = train(states, labels, judge)
    for layer in range(len(states)):
        alone = train(states[layer : layer + 1], labels, judge)
        torch.testing.assert_close(together[layer], alone[0], atol=1e-6, rtol=0)


def test_each_layer_keeps_what_it_said_after_its_own_best_epoch():
    evidence = make_evidence(layers=2)
    values = torch.tensor([[1.0, 3.0], [2.0, 1.0], [2.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    after = [train(evidence.states["mean"], evidence.labels, lambda o: o.new_ones(2), epochs=1, seed=1)]
    for epochs in (2, 3, 4):
        count = iter(range(epochs))
        after.append(
            train(
                evidence.states["mean"],
                evidence.labels,
                lambda o, count=count: torch.full((2,), float(next(count))).double(),
                epochs=epochs,
            )
        )
    steps = iter(values)
    kept = train(evidence.states["mean"], evidence.labels, lambda outputs: next(steps), epochs=4)
    assert torch.equal(kept[0], after[1][0])  # the first of two equal epochs
    assert torch.equal(kept[1], after[0][1])


def test_a_layer_that_ran_out_of_patience_stays_as_it_was():
    evidence = make_evidence(layers=2)
    values = torch.tensor([[2.0, 1.0], [1.0, 2.0], [1.0, 3.0], [9.0, 4.0], [9.0, 4.0], [9.0, 4.0], [9.0, 5.0]])
    steps = iter(values.double())
    seen = []

    def judge(outputs):
        seen.append(outputs)
        return next(steps)

    first = train(evidence.states["mean"], evidence.labels, lambda o: torch.ones(2), epochs=1)
    kept = train(evidence.states["mean"], evidence.labels, judge, epochs=7, patience=2)
    assert torch.equal(kept[0], first[0])
    assert len(seen) == 6  # layer 1 was last better in epoch 4


def test_targets_know_only_the_rows_to_fit_on():
    evidence = make_evidence(labels=torch.tensor([5, 2, 5, 2, 8]), groups=torch.arange(5))
    targets = make_targets(Part(evidence=evidence, rows=torch.tensor([0, 1, 2])))
    assert targets.encode(evidence.labels).tolist() == [0, 1, 0, 1, -1]  # classes in the order in which they come
    numbers = replace(evidence, kind="regression", labels=torch.tensor([1.0, 3.0, 1.0, 3.0, 100.0]))
    targets = make_targets(Part(evidence=numbers, rows=torch.arange(4)))
    values = targets.encode(numbers.labels)
    assert values[:4].tolist() == [-1, 1, -1, 1]
    assert targets.decode(values).tolist() == pytest.approx([1, 3, 1, 3, 100])


# The rows of a probe --------------------------------------------------------------------------------------------------


def with_others(evidence: Evidence, *, check: bool = True) -> Evidence:
    """Evidence whose first 200 rows are measured, the next 100 choose the epoch and the last 100 judge."""
    fit, chosen, judged = (evidence.take(torch.arange(a, b)) for a, b in ((0, 200), (200, 300), (300, 400)))
    return replace(fit, check=chosen if check else None, held=judged)


def test_other_rows_choose_and_judge_and_all_measured_rows_are_fitted():
    evidence = with_others(make_evidence(rows=400))
    rows = probe_rows(evidence)
    assert rows.fit.rows.tolist() == rows.training.rows.tolist() == list(range(200))
    assert (rows.check.evidence, rows.held.evidence) == (evidence.check, evidence.held)
    assert (len(rows.check.rows), len(rows.held.rows)) == (100, 100)
    assert probe_rows(evidence, choose_on="held-out").check.evidence is evidence.held


def test_without_rows_for_choosing_a_tenth_of_the_measured_ones_choose():
    evidence = with_others(make_evidence(rows=400), check=False)
    rows = probe_rows(evidence)
    assert rows.check.evidence is evidence
    assert (len(rows.fit.rows), len(rows.check.rows), len(rows.held.rows)) == (180, 20, 100)
    assert sorted([*rows.fit.rows.tolist(), *rows.check.rows.tolist()]) == list(range(200))


@pytest.mark.parametrize("probe", [probe_linear, partial(probe_linear_paper, trials=2, epochs=4), probe_head])
def test_probes_judged_on_other_rows_equal_the_same_division_inside(probe, monkeypatch):
    whole = make_evidence(tiny_encoder("bert"), rows=400)
    parts = [Part(evidence=whole, rows=torch.arange(a, b)) for a, b in ((0, 200), (200, 300), (300, 400))]
    inside = ProbeRows(training=parts[0], fit=parts[0], check=parts[1], held=parts[2])
    outside = probe(with_others(whole), uncertainty=False).values
    for module in (head_module, linear_module, paper_module):
        monkeypatch.setattr(module, "probe_rows", lambda evidence, **_: inside)
    assert torch.equal(probe(whole, uncertainty=False).values, outside)
    assert outside.argmax() == DEPTH - 1


@pytest.mark.parametrize("probe", [probe_linear, partial(probe_linear_paper, trials=1), probe_head])
def test_a_class_that_only_other_rows_have_counts_as_an_error(probe):
    evidence = with_others(make_evidence(tiny_encoder("bert"), rows=400))
    labels = evidence.held.labels.clone()
    labels[:50] = 7
    changed = replace(
        evidence, held=replace(evidence.held, labels=labels), check=replace(evidence.check, labels=labels)
    )
    assert probe(changed, uncertainty=False).values.max() <= 0.5


def test_a_probe_refuses_too_few_other_rows():
    evidence = with_others(make_evidence(rows=400))
    with pytest.raises(MeasureError, match="holds out 9 rows and needs 10"):
        probe_linear(replace(evidence, held=evidence.held.take(torch.arange(9))))


def test_states_too_large_for_a_copy_give_the_same_probes(monkeypatch):
    evidence = with_others(make_evidence(tiny_encoder("bert"), rows=400))
    copied = probe_head(evidence, epochs=2).values
    monkeypatch.setattr(trained_module, "_LARGEST_COPY", 0)
    monkeypatch.setattr(trained_module, "_BLOCK", 33)
    assert torch.equal(probe_head(evidence, epochs=2).values, copied)


# The linear probe of Tamkin et al. 2020 ------------------------------------------------------------------------------


def test_the_linear_probe_finds_the_layer_that_knows():
    found = probe_linear_paper(make_evidence(), trials=3, epochs=20, learning_rate=1e-2)
    assert found.values.argmax() == DEPTH - 1
    assert found.values[DEPTH - 1] > 0.95
    assert found.values[:-2].max() < 0.7
    assert found.deviations is not None


def test_the_linear_probe_is_the_mean_of_its_trials():
    evidence = make_evidence()
    options = {"epochs": 3, "uncertainty": False}
    alone = [probe_linear_paper(replace(evidence, seed=seed), trials=1, **options).values for seed in (4, 5, 6)]
    found = probe_linear_paper(replace(evidence, seed=4), trials=3, **options)
    torch.testing.assert_close(found.values, torch.stack(alone).mean(0))
    assert found.deviations is None


def test_the_linear_probe_reads_the_mean_of_all_tokens():
    evidence = make_evidence()
    other = replace(evidence, states={**evidence.states, "mean": torch.zeros(1)})
    options = {"trials": 1, "epochs": 2}
    assert torch.equal(probe_linear_paper(evidence, **options).values, probe_linear_paper(other, **options).values)


@pytest.mark.parametrize("probe", [partial(probe_linear_paper, trials=1), probe_head], ids=["linear", "head"])
def test_values_to_predict_come_back_on_their_own_scale(probe):
    evidence = make_evidence(tiny_encoder("bert"), kind="regression", metric="r2")
    source = torch.Generator().manual_seed(1)
    values = evidence.states["mean"][DEPTH - 1] @ torch.randn(32, generator=source)
    found = probe(replace(evidence, labels=values * 3 + 50), learning_rate=5e-3, epochs=30)
    assert found.values[DEPTH - 1] > 0.5
    assert found.values.argmax() == DEPTH - 1


# The head of Xie et al. 2022 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_the_head_of_every_family_finds_the_layer_that_knows(name):
    found = probe_head(make_evidence(tiny_encoder(name)), learning_rate=5e-3, epochs=6)
    assert found.values.dtype == torch.float64
    assert found.values[DEPTH - 1] > 0.9
    assert found.values.argmax() == DEPTH - 1
    assert found.values[: DEPTH - 1].max() < 0.75


def test_more_than_two_classes_have_as_many_outputs():
    evidence = make_evidence(tiny_encoder("bert"), classes=4, rows=400)
    assert probe_head(evidence, learning_rate=5e-3).values[DEPTH - 1] > 0.9


def test_of_several_choices_the_head_takes_the_one_it_prefers():
    labels = torch.tensor([0, 0, 1, 0]).repeat(100)
    evidence = make_evidence(tiny_encoder("bert"), rows=400, kind="multiple choice", groups=torch.arange(400) // 4)
    evidence.states["mean"][DEPTH - 1] += 3.0 * labels[:, None]
    found = probe_head(replace(evidence, labels=labels), learning_rate=5e-3)
    assert found.values[DEPTH - 1] == 1.0
    assert found.values[0] < 0.7


def test_the_epoch_is_chosen_on_an_inner_part_unless_the_papers_way_is_asked_for():
    evidence = make_evidence(tiny_encoder("bert"), apart=0.3)
    inner, paper = (probe_head(evidence, choose_on=way, uncertainty=False).values for way in ("inner", "held-out"))
    assert paper.mean() > inner.mean()  # the best of ten on the very rows
    with pytest.raises(OptionError, match="'test'"):
        probe_head(evidence, choose_on="test")


def test_held_out_rows_do_not_enter_the_fit_or_the_choice():
    evidence = make_evidence(tiny_encoder("bert"))
    held = probe_rows(evidence).held.rows
    changed = replace(evidence, states={"mean": evidence.states["mean"].clone()})
    changed.states["mean"][:, held[0]] = 100.0
    one, other = (probe_head(given, epochs=3, uncertainty=False).values for given in (evidence, changed))
    assert (one - other).abs().max() <= 1 / len(held) + 1e-12


def test_a_final_norm_is_applied_once():
    encoder = tiny_encoder("modernbert")
    evidence = make_evidence(encoder)
    states = torch.randn(6, 1, 32, generator=torch.Generator().manual_seed(0))
    for layer, prepare in ((DEPTH - 1, encoder.finish), (DEPTH, lambda given: given)):
        ours = _head(encoder, evidence, 2, layer, dropout=-1).eval()
        stock = make_head(encoder, labels=2, layer=layer, seed=0).eval()
        stock.stock.model.final_norm = torch.nn.Identity()
        torch.testing.assert_close(ours(states), stock(prepare(states)))


def test_heads_read_the_states_of_their_own_layer():
    encoder = tiny_encoder("bert")
    heads = HeadProbes([make_head(encoder, labels=2, seed=seed) for seed in (0, 1)]).eval()
    states = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
    outputs = heads(states)
    assert outputs.shape == (2, 5, 2)
    torch.testing.assert_close(outputs[1], make_head(encoder, labels=2, seed=1).eval()(states[1][:, None]))


@pytest.mark.parametrize("schedule", ["linear", "constant"])
def test_the_head_is_trained_by_adamw_with_the_papers_schedule(schedule):
    """One layer by plain torch and the scheduler of transformers: the same predictions after the same epoch."""
    encoder, epochs, batch, rate = tiny_encoder("bert"), 4, 8, 5e-3
    evidence = with_others(make_evidence(encoder, rows=400, apart=0.4))
    layer, steps = DEPTH - 1, epochs * 25
    head = make_head(encoder, labels=2, layer=layer, seed=0)
    for part in head.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=0.0)
    warm = -(-6 * steps // 100)
    make = {"linear": partial(get_linear_schedule_with_warmup, num_training_steps=steps),
            "constant": get_constant_schedule_with_warmup}[schedule]  # fmt: skip
    scheduler, order = make(optimizer, num_warmup_steps=warm), torch.Generator().manual_seed(0)
    fit, check, held = (given.states["mean"][layer] for given in (evidence, evidence.check, evidence.held))
    judged, best = None, -1.0
    for _ in range(epochs):
        head.train()
        for rows in torch.randperm(200, generator=order).split(batch):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(head(fit[rows][:, None]), evidence.labels[rows]).backward()
            optimizer.step()
            scheduler.step()
        head.eval()
        with torch.no_grad():
            chosen, outputs = head(check[:, None]), head(held[:, None])
        quality = (chosen.argmax(1) == evidence.check.labels).double().mean()
        if quality > best:
            best, judged = quality, outputs

    found = []
    real = head_module.make_predictions

    def noted(part, outputs, classes):
        found.append(outputs)
        return real(part, outputs, classes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_module, "make_predictions", noted)
        probe_head(
            evidence, learning_rate=rate, epochs=epochs, batch=batch, schedule=schedule, warmup=0.06, dropout=0.0
        )
    torch.testing.assert_close(found[-1][layer].float(), judged, atol=2e-5, rtol=1e-4)


def test_dropout_of_the_head_can_be_set_and_is_the_encoders_own_by_default():
    encoder = tiny_encoder("bert")
    evidence = make_evidence(encoder, apart=0.3)
    own = encoder.config.hidden_dropout_prob
    values = {p: probe_head(evidence, epochs=3, dropout=p, uncertainty=False).values for p in (-1.0, own, 0.9)}
    assert torch.equal(values[-1.0], values[own])
    assert not torch.equal(values[-1.0], values[0.9])
    with pytest.raises(OptionError, match=r"dropout 1\.0: must be below 1"):
        probe_head(evidence, dropout=1.0)


@pytest.mark.parametrize(("option", "value"), [("schedule", "cosine"), ("warmup", 1.0), ("epochs", 0), ("batch", 0)])
def test_a_recipe_of_a_probe_is_checked(option, value):
    with pytest.raises(OptionError, match=option):
        probe_head(make_evidence(tiny_encoder("bert")), **{option: value})


def test_without_the_encoder_there_is_no_head():
    with pytest.raises(MeasureError, match=r"probe\.head needs the encoder"):
        probe_head(make_evidence())


@pytest.mark.parametrize("probe", [probe_linear_paper, probe_head])
def test_a_seed_fixes_everything_and_the_global_random_state_is_left_alone(probe):
    encoder = tiny_encoder("bert")
    evidence = make_evidence(encoder)
    weights = [parameter.clone() for parameter in encoder.model.parameters()]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = probe(evidence, epochs=2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second = probe(evidence, epochs=2)
    assert torch.equal(first.values, second.values)
    assert torch.equal(first.deviations, second.deviations)
    assert not torch.equal(first.deviations, probe(replace(evidence, seed=1), epochs=2).deviations)
    assert all(torch.equal(a, b) for a, b in zip(weights, encoder.model.parameters(), strict=True))


@pytest.mark.parametrize("probe", [probe_linear_paper, probe_head])
def test_states_that_are_not_finite_are_refused(probe):
    evidence = make_evidence(tiny_encoder("bert"))
    evidence.states["mean"][1, 3, 2] = float("inf")
    with pytest.raises(MeasureError, match="layer 1 are not finite"):
        probe(evidence, epochs=1)
