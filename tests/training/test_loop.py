"""The training loop: the same losses whichever way states come, the Trainer's curve, exact resume, no silent NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.tiny import CONFIGS, DEPTH, padded_inputs, tiny_encoder
from tests.training.tuning_tools import CLASSES, examples_for, many_labels, many_tokens, tiny_tunable

from frostline.encoders.families import FAMILIES
from frostline.errors import AuditError, OptionError, TuneError
from frostline.plans.methods import METHODS
from frostline.records import Plan, Recipe
from frostline.records.recipe import rate_at
from frostline.training.checkpoints import Checkpoints
from frostline.training.loop import load_weights, loss_of, order_of_rows, train, weights_of
from frostline.training.model import check_recipe, make_tunable

TOKENS, LABELS = many_tokens(), many_labels()
EXACT = Recipe(epochs=2, batch=8, dropout=0.0, learning_rate=1e-3, cache_dtype="float32", select="last")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


def losses(tunable, examples, recipe=EXACT, **options):
    """The loss of every step."""
    every_step = Recipe(**{**recipe.to_json(), "evaluate_every": 1})
    rate = recipe.learning_rate
    run = train(tunable, examples, None, every_step, metrics=("accuracy",), learning_rate=rate, **options)
    return [record["loss"] for record in run.history]


def plan_for(method, layers=(2, 4), head=DEPTH):
    options = {"bottleneck": 4} if "bottleneck" in METHODS[method].defaults else {}
    return Plan(layers=layers, head=head, method=method, options=options)


@pytest.mark.parametrize("method", METHODS.names())
@pytest.mark.parametrize("name", CONFIGS)
def test_losses_from_the_cache_equal_losses_through_the_frozen_layers(name, method):
    plan = plan_for(method)
    through = tiny_tunable(name, plan, dropout=0.0)
    cached = tiny_tunable(name, plan, dropout=0.0)
    ours = losses(cached, examples_for(cached, TOKENS, LABELS, keep=True))
    theirs = losses(through, examples_for(through, TOKENS, LABELS, keep=False))
    assert len(ours) == 10 and ours[0] != ours[-1]
    assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("method", METHODS.names())
@pytest.mark.parametrize("name", CONFIGS)
def test_packed_and_padded_execution_agree(name, method):
    tunable = tiny_tunable(name, plan_for(method, layers=(1, 3)), dropout=0.0)
    examples = examples_for(tunable, TOKENS, LABELS)
    rows = np.arange(20)
    losses(tunable, examples)  # so that what a method adds is not at its neutral start
    with torch.no_grad():
        packed, padded = examples.logits(tunable, rows), examples.logits(tunable, rows, padded=True)
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)


def stock_with_same_weights(name, tunable, frozen):
    """Hugging Face's own classifier with the same weights, its lower layers frozen."""
    import transformers

    config = type(tunable.encoder.config).from_dict(tunable.encoder.config.to_dict())
    config.num_labels = CLASSES
    for field in vars(config):
        if "dropout" in field and isinstance(getattr(config, field), float):
            setattr(config, field, 0.0)
    stock = transformers.AutoModelForSequenceClassification.from_config(config)
    assert not stock.base_model.load_state_dict(tunable.model.state_dict(), strict=False).missing_keys
    assert not stock.load_state_dict(tunable.head.stock.state_dict(), strict=False).unexpected_keys
    family = FAMILIES[tunable.encoder.family.name]
    from frostline.encoders.parameter_groups import parts_of

    parts = parts_of(family, stock.base_model)
    if frozen:
        for named in (parts.embeddings, *parts.layers[:frozen]):
            for value in named.values():
                value.requires_grad_(False)
    return stock


def trainer_losses(name, stock, folder, recipe):
    """The loss of every step of the Hugging Face Trainer on the same rows in the same order."""
    import transformers
    from torch.utils.data import Dataset

    encoder = tiny_encoder(name)
    order = np.concatenate([order_of_rows(len(TOKENS), seed=0, epoch=epoch) for epoch in range(recipe.epochs)])

    class Rows(Dataset):
        def __len__(self):
            return len(order)

        def __getitem__(self, place):
            return int(order[place])

    def collate(rows):
        return {**padded_inputs(encoder, TOKENS.take(rows)), "labels": LABELS[rows]}

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    seen = []

    class Listen(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            if "loss" in logs:
                seen.append(float(logs["loss"]))

    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=recipe.batch,
        num_train_epochs=1,  # the order above holds all epochs
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=math.ceil(recipe.warmup * math.ceil(len(order) / recipe.batch)),
        weight_decay=0.0,
        max_grad_norm=recipe.clip,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        optim="adamw_torch",
    )
    trainer = InOrder(model=stock, args=arguments, train_dataset=Rows(), data_collator=collate, callbacks=[Listen()])
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return seen


@pytest.mark.parametrize("frozen", [0, 2])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_loss_curve_is_that_of_the_hugging_face_trainer(name, frozen, tmp_path):
    if frozen and tiny_encoder(name).shares_layers:
        frozen = DEPTH  # layers that share parameters freeze together in the stock class
    plan = Plan.full(DEPTH) if not frozen else Plan(layers=tuple(range(frozen + 1, DEPTH + 1)), head=DEPTH)
    tunable = tiny_tunable(name, plan, dropout=0.0)
    stock = stock_with_same_weights(name, tunable, frozen)
    examples = examples_for(tunable, TOKENS, LABELS, keep=bool(frozen))
    ours = losses(tunable, examples)
    theirs = trainer_losses(name, stock, tmp_path, EXACT)
    assert len(ours) == len(theirs) == 10
    assert ours == pytest.approx(theirs, abs=2e-4)  # the Trainer logs losses rounded to four places


class Killed(Exception):
    """Stands for the end of the process."""


def run_to_the_end(folder, *, kill_at=(), every=1, dropout=0.3, plan=None):
    """Train with checkpoints, ending abruptly after each of the given steps and going on; the final weights."""
    recipe = Recipe(epochs=3, batch=8, dropout=dropout, learning_rate=1e-3, warmup=0.2)
    validation_tokens, validation_labels = many_tokens(20, seed=5), many_labels(20, seed=5)
    stops = [*kill_at, None]
    for attempt, stop in enumerate(stops):
        tunable = tiny_tunable("bert", plan, dropout=dropout)
        rows = examples_for(tunable, TOKENS, LABELS, keep=True)
        validation = examples_for(tunable, validation_tokens, validation_labels, keep=True)
        checkpoints = Checkpoints(folder, run="this", resume=attempt > 0, every_steps=every)

        def progress(step, stop=stop):
            if step.done == stop and step.stage == "training":
                raise Killed

        try:
            trained = train(
                tunable, rows, validation, recipe,
                metrics=("accuracy",), learning_rate=1e-3, checkpoints=checkpoints, progress=progress,
            )  # fmt: skip
        except Killed:
            continue
        return weights_of(tunable), trained
    raise AssertionError("never finished")


@pytest.mark.parametrize("kill_at", [(1,), (2,), (5,), (6,), (14,), (3, 4, 9, 15)])
def test_a_run_that_was_killed_goes_on_to_the_same_bits(tmp_path, kill_at):
    whole, trained = run_to_the_end(tmp_path / "a")
    again, resumed = run_to_the_end(tmp_path / "b", kill_at=kill_at)
    assert all(whole[name].equal(again[name]) for name in whole)
    without_time = lambda history: [{**record, "seconds": 0} for record in history]  # noqa: E731
    assert without_time(trained.history) == without_time(resumed.history)


@pytest.mark.parametrize("every", [2, 5, 100])
def test_it_does_not_matter_how_often_checkpoints_are_written(tmp_path, every):
    whole, _ = run_to_the_end(tmp_path / "a")
    again, _ = run_to_the_end(tmp_path / "b", kill_at=(8, 12), every=every)
    assert all(whole[name].equal(again[name]) for name in whole)


@pytest.mark.parametrize("how", ["cut short", "one bit", "no description", "half built"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, how):
    whole, _ = run_to_the_end(tmp_path / "a")
    folder = tmp_path / "b"
    with pytest.raises(AssertionError, match="never finished"):
        run_to_the_end_once(folder, stop=9)
    newest = max(folder.glob("step-*"), key=lambda path: int(path.name[5:]))
    tensors = newest / "state.safetensors"
    if how == "cut short":
        tensors.write_bytes(tensors.read_bytes()[:-5])
    elif how == "one bit":
        content = bytearray(tensors.read_bytes())
        content[-3] ^= 4
        tensors.write_bytes(content)
    elif how == "no description":
        (newest / "state.json").unlink()
    else:
        (folder / ".building-x").mkdir()
        tensors.unlink()
    again, _ = resume_to_the_end(folder)
    assert all(whole[name].equal(again[name]) for name in whole)


def run_to_the_end_once(folder, *, stop):
    """Start, and end abruptly at a step."""
    recipe = Recipe(epochs=3, batch=8, dropout=0.3, learning_rate=1e-3, warmup=0.2)
    tunable = tiny_tunable("bert", None, dropout=0.3)
    rows = examples_for(tunable, TOKENS, LABELS, keep=True)
    validation = examples_for(tunable, many_tokens(20, seed=5), many_labels(20, seed=5), keep=True)

    def progress(step):
        if step.done == stop and step.stage == "training":
            raise AssertionError("never finished")

    train(
        tunable, rows, validation, recipe, metrics=("accuracy",), learning_rate=1e-3,
        checkpoints=Checkpoints(folder, run="this", resume=False, every_steps=1), progress=progress,
    )  # fmt: skip


def resume_to_the_end(folder, run="this"):
    recipe = Recipe(epochs=3, batch=8, dropout=0.3, learning_rate=1e-3, warmup=0.2)
    tunable = tiny_tunable("bert", None, dropout=0.3)
    rows = examples_for(tunable, TOKENS, LABELS, keep=True)
    validation = examples_for(tunable, many_tokens(20, seed=5), many_labels(20, seed=5), keep=True)
    steps = []
    trained = train(
        tunable, rows, validation, recipe, metrics=("accuracy",), learning_rate=1e-3,
        checkpoints=Checkpoints(folder, run=run, resume=True, every_steps=1),
        progress=lambda step: steps.append(step.done),
    )  # fmt: skip
    return weights_of(tunable), (trained, steps)


def test_a_checkpoint_of_another_run_is_not_used(tmp_path):
    with pytest.raises(AssertionError, match="never finished"):
        run_to_the_end_once(tmp_path, stop=9)
    _, (_, steps) = resume_to_the_end(tmp_path, run="other")
    assert steps[0] == 1


def test_going_on_does_not_repeat_what_was_done(tmp_path):
    with pytest.raises(AssertionError, match="never finished"):
        run_to_the_end_once(tmp_path, stop=9)
    _, (_, steps) = resume_to_the_end(tmp_path)
    assert steps[0] == 9  # the checkpoint of step 8 was the last one written


def test_only_the_two_newest_checkpoints_are_kept(tmp_path):
    with pytest.raises(AssertionError, match="never finished"):
        run_to_the_end_once(tmp_path, stop=9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-7", "step-8"]


def test_deberta_says_that_it_has_no_mixed_precision_on_a_gpu(monkeypatch):
    encoder = tiny_encoder("deberta")
    check_recipe(Recipe(precision="bfloat16"), encoder)
    monkeypatch.setattr(type(encoder), "device", torch.device("cuda"))
    with pytest.raises(OptionError, match="does not run in mixed precision"):
        check_recipe(Recipe(precision="bfloat16"), encoder)


@pytest.mark.parametrize("name", CONFIGS)
def test_half_the_digits_give_nearly_the_same_losses(name):
    found = {}
    for precision in ("float32", "bfloat16"):
        tunable = tiny_tunable(name, dropout=0.0)
        examples = examples_for(tunable, TOKENS, LABELS)
        found[precision] = losses(tunable, examples, Recipe(**{**EXACT.to_json(), "precision": precision}))
    assert found["bfloat16"] != found["float32"]
    assert found["bfloat16"] == pytest.approx(found["float32"], rel=0.05)


def test_training_stops_at_the_first_loss_that_is_not_finite():
    tunable = tiny_tunable("bert", dropout=0.0)
    examples = examples_for(tunable, TOKENS, LABELS)
    with torch.no_grad():
        tunable.head.stock.classifier.weight[0, 0] = float("inf")
    with pytest.raises(TuneError, match=r"diverged at step 1: the loss is (nan|inf)"):
        losses(tunable, examples)


def test_training_stops_when_a_rate_is_far_too_high():
    tunable = tiny_tunable("bert", dropout=0.0)
    examples = examples_for(tunable, TOKENS, LABELS)
    with pytest.raises(TuneError, match=r"diverged at step \d+"):
        losses(tunable, examples, Recipe(**{**EXACT.to_json(), "learning_rate": 1e30, "epochs": 3, "clip": 0.0}))


@pytest.mark.parametrize("schedule", ["linear", "constant"])
def test_the_rate_follows_transformers_schedule(schedule):
    import transformers

    recipe = Recipe(schedule=schedule, warmup=0.1)
    weights = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weights], lr=1.0)
    kind = "linear" if schedule == "linear" else "constant_with_warmup"
    theirs = transformers.get_scheduler(kind, optimizer, num_warmup_steps=math.ceil(0.1 * 37), num_training_steps=37)
    for step in range(37):
        assert rate_at(step, 37, recipe) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        theirs.step()


def test_rows_come_once_per_epoch_in_an_order_of_its_own():
    orders = [order_of_rows(50, seed=3, epoch=epoch) for epoch in range(2)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert list(orders[0]) != list(orders[1])
    assert list(orders[0]) == list(order_of_rows(50, seed=3, epoch=0))
    assert list(orders[0]) != list(order_of_rows(50, seed=4, epoch=0))


def test_accumulated_batches_give_the_step_of_one_large_batch():
    found = {}
    for name, options in {"one": {"batch": 16}, "parts": {"batch": 4, "accumulate": 4}}.items():
        tunable = tiny_tunable("bert", dropout=0.0)
        examples = examples_for(tunable, TOKENS, LABELS)
        found[name] = losses(tunable, examples, Recipe(**{**EXACT.to_json(), **options}))
    assert found["one"] == pytest.approx(found["parts"], abs=1e-5)


def test_the_best_epoch_is_kept_and_training_stops_when_nothing_improves():
    tunable = tiny_tunable("bert", dropout=0.0)
    rows = examples_for(tunable, TOKENS, LABELS)
    validation = examples_for(tunable, many_tokens(30, seed=8), many_labels(30, seed=8))
    recipe = Recipe(epochs=30, batch=8, dropout=0.0, learning_rate=3e-3, patience=2)
    trained = train(tunable, rows, validation, recipe, metrics=("accuracy",), learning_rate=3e-3)
    values = [record["validation_accuracy"] for record in trained.history]
    best = values.index(max(values))
    assert trained.best == trained.history[best]
    assert len(values) == best + 3  # two evaluations without improvement, then the end
    outputs = validation.outputs(tunable)
    assert (outputs.argmax(1) == validation.labels).double().mean().item() == pytest.approx(max(values))


def test_new_layers_can_learn_faster():
    from frostline.training.optimizers import make_optimizer

    tunable = tiny_tunable("bert")
    optimizer = make_optimizer(tunable, Recipe(new_layer_rate=5.0), 1e-4, frozenset({4}))
    rates = {group["highest"]: {id(value) for value in group["params"]} for group in optimizer.param_groups}
    assert set(rates) == {1e-4, 5e-4}
    assert rates[5e-4] == {id(value) for value in tunable.encoder.parts().layers[3].values()}


@pytest.mark.parametrize("name", [name for name in FAMILIES.names() if name != "albert"])
def test_layers_learn_at_their_own_rates_and_everything_else_at_the_plans(name):
    from frostline.training.optimizers import make_optimizer

    tunable = tiny_tunable(name, Plan.full(4))
    factors = (0.25, 0.5, 1.0, 0.125)
    optimizer = make_optimizer(tunable, Recipe(layer_rates=factors), 1e-4)
    rates = {id(value): group["highest"] for group in optimizer.param_groups for value in group["params"]}
    layers = tunable.encoder.parts().layers
    for factor, values in zip(factors, layers, strict=True):
        assert {rates.pop(id(value)) for value in values.values()} == {factor * 1e-4}
    assert set(rates.values()) == {1e-4}


def test_weight_decay_spares_norms_and_biases():
    from frostline.training.optimizers import make_optimizer

    tunable = tiny_tunable("bert")
    names = {id(value): name for name, value in tunable.trainable().items()}
    optimizer = make_optimizer(tunable, Recipe(weight_decay=0.1), 1e-4)
    for group in optimizer.param_groups:
        for value in group["params"]:
            name = names[id(value)]
            spared = name.endswith("bias") or "LayerNorm" in name
            assert group["weight_decay"] == (0.0 if spared else 0.1), name


def test_weights_of_another_plan_are_refused():
    with pytest.raises(ValueError, match="another plan"):
        load_weights(tiny_tunable("bert"), weights_of(tiny_tunable("bert", Plan.span(2, 4, 4))))


def test_losses_are_those_of_the_stock_classes():
    logits, labels = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
    assert loss_of(logits, labels, "classification").item() == pytest.approx(
        -(logits.log_softmax(1)[range(5), labels]).mean().item()
    )
    values = torch.randn(5)
    assert loss_of(logits[:, :1], values, "regression").item() == pytest.approx(
        ((logits[:, 0] - values) ** 2).mean().item()
    )


# The audit -----------------------------------------------------------------------------------------------------------


def test_the_audit_says_what_trained_and_how_deep():
    tunable = tiny_tunable("bert", Plan(layers=(2, 4), head=4), dropout=0.0)
    examples = examples_for(tunable, TOKENS, LABELS)
    trained = train(tunable, examples, None, EXACT, metrics=("accuracy",), learning_rate=1e-3)
    assert trained.audit.depth == 2
    assert trained.audit.trainable == sum(value.numel() for value in tunable.trainable().values())
    assert "backward ran down to layer 2" in str(trained.audit)


@pytest.mark.parametrize(
    ("plan", "depth"), [(Plan.full(4), 0), (Plan(layers=(), head=3), None), (Plan.span(1, 2, 2), 1)]
)
def test_backward_runs_no_deeper_than_the_plan(plan, depth):
    tunable = tiny_tunable("roberta", plan, dropout=0.0)
    examples = examples_for(tunable, TOKENS, LABELS)
    trained = train(tunable, examples, None, EXACT, metrics=("accuracy",), learning_rate=1e-3)
    assert trained.audit.depth == depth


def test_a_layer_that_trains_without_being_named_is_an_error():
    tunable = tiny_tunable("bert")
    tunable.layer(1).requires_grad_(True)
    with pytest.raises(AuditError, match=r"is not part of the plan .*"):
        losses(tunable, examples_for(tunable, TOKENS, LABELS))


def test_a_tensor_that_no_gradient_reaches_is_an_error():
    tunable = tiny_tunable("bert")
    tunable.layer(3).extra = torch.nn.Parameter(torch.zeros(3))
    with pytest.raises(AuditError, match="extra should train, but no gradient reaches it"):
        losses(tunable, examples_for(tunable, TOKENS, LABELS))


def test_a_frozen_tensor_that_changes_is_an_error():
    tunable = tiny_tunable("bert")
    examples = examples_for(tunable, TOKENS, LABELS)

    def meddle(step):
        if step.done == 3:
            with torch.no_grad():
                next(iter(tunable.encoder.parts().layers[0].values()))[0] += 1e-6

    with pytest.raises(AuditError, match="should be frozen, but has changed"):
        losses(tunable, examples, progress=meddle)


def test_a_tuned_tensor_that_does_not_move_is_an_error():
    tunable = tiny_tunable("bert")
    examples = examples_for(tunable, TOKENS, LABELS)
    name, stuck = next(iter(tunable.trainable().items()))
    stuck.register_hook(torch.zeros_like)
    with pytest.raises(AuditError, match=f"{name} should have been trained, but has not moved"):
        losses(tunable, examples)


def test_frozen_layers_between_and_above_tuned_ones_have_dropout_unless_it_is_turned_off():
    plan = Plan(layers=(2,), head=4)
    for frozen_dropout in (True, False):
        tunable = make_tunable(tiny_encoder("bert"), plan, outputs=2, frozen_dropout=frozen_dropout).train()
        assert [tunable.layer(number).training for number in (1, 2, 3, 4)] == [
            False,
            True,
            frozen_dropout,
            frozen_dropout,
        ]


def test_training_lasts_so_many_steps_where_these_are_asked_for_and_the_schedule_ends_with_them():
    tunable = tiny_tunable(plan=Plan(layers=(), head=2), dropout=0.0)
    examples = examples_for(tunable, TOKENS, LABELS)
    recipe = Recipe(**{**EXACT.to_json(), "steps": 7, "epochs": 9, "warmup": 0.0})
    run = train(tunable, examples, examples, recipe, metrics=("accuracy",), learning_rate=1e-3)
    assert [(record["step"], record["epoch"]) for record in run.history] == [(5, 1.0), (7, 1.4)]
    assert run.history[-1]["learning_rate"] == pytest.approx(1e-3 / 7)
    few = Recipe(**{**recipe.to_json(), "steps": 3})
    run = train(tunable, examples, None, few, metrics=("accuracy",), learning_rate=1e-3)
    assert [record["step"] for record in run.history] == [3]
