"""The cost of a plan, before it runs and without weights: parameters, FLOPs, memory, disk, latency, seconds."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from frostline.costs.flops import Counter, Shape, Work, shape_of, weightless_encoder
from frostline.costs.workload import Workload
from frostline.encoders.average_head import AverageHead
from frostline.encoders.tokens import TOKENS_PER_BATCH
from frostline.kernels.batch_layout import Ints
from frostline.plans.methods import METHODS
from frostline.records import Cost, Plan, Recipe
from frostline.states.frozen import StatesAt
from frostline.training.dataset import frozen_at
from frostline.training.freeze_audit import count_kept
from frostline.training.loop import order_of_rows
from frostline.training.model import Tunable, make_tunable
from frostline.training.stock_model import is_stock

if TYPE_CHECKING:
    from frostline.costs.timing import Speed
    from frostline.encoders.families._family import Config

_BATCHES_SAMPLED = 200  # of an epoch; the others are assumed to be like them
_FLOAT = 4  # bytes
_LIBRARIES = 30_000_000  # bytes of code and tables that are loaded on first use
_VOCABULARY_ENTRY = 500  # bytes in a tokenizer
_TOKEN = 16  # bytes: id and type


class Costs:
    """The costs of plans for one encoder and one workload."""

    def __init__(self, config: Config, load: Workload, recipe: Recipe, *, speed: Speed | None = None) -> None:
        """Compute what all plans share.

        Args:
            config: a Hugging Face configuration of a supported family.
            load: numbers and lengths of the texts.
            recipe: batch, epochs, head and cache dtype.
            speed: speed of this machine, for estimates in seconds.
        """
        self.config, self.load, self.recipe, self.speed = config, load, recipe, speed
        self.encoder = weightless_encoder(config)
        self.is_packed = self.encoder.family.can_pack
        self.epoch, self.largest = self._epoch()
        self.counter = Counter(self.encoder, outputs=load.outputs, kind=load.kind, head=recipe.head)
        self._whole_inference = self._inference(Plan(layers=(), head=self.encoder.depth))
        # Of the layer that averages tokens, which the saved model has in addition.
        self._added_inference = self._whole_inference / self.encoder.depth if recipe.head == "average" else 0.0

    def at(self, speed: Speed) -> Costs:
        """Return the same costs with estimates in seconds for a machine of this speed."""
        timed = copy.copy(self)
        timed.speed = speed
        return timed

    def of(self, plan: Plan, *, epochs: int | None = None) -> Cost:
        """Return the cost of a plan, for a number of epochs; the recipe's if not given."""
        tunable = self._tunable(plan)
        trainable = sum(value.numel() for value in tunable.trainable().values())
        total, stock = count_kept(tunable), is_stock(tunable)
        work = self.counter.of(plan)
        frozen = work.frozen.of(self._pass(self.load.train)) if plan.lowest else 0.0
        per_epoch = work.forward.of(self.epoch) + work.backward.of(self.epoch)
        uncached = per_epoch + frozen
        if self.recipe.lower_dropout and plan.lowest:  # frozen layers run at every step
            per_epoch = uncached = per_epoch + work.frozen.of(self.epoch)
            frozen = 0.0
        tokens = float(self.load.train.sum())
        cost = Cost(
            total=total,
            trainable=trainable,
            stored=self._stored(plan, total) + self._added_parameters(tunable) if stock else trainable,
            stock=stock,
            layers=plan.head,
            forward_per_token=work.forward.of(self.epoch) / tokens,
            backward_per_token=work.backward.of(self.epoch) / tokens,
            frozen_flops=frozen,
            epoch_flops=per_epoch,
            epoch_flops_uncached=uncached,
            steps=round(self.epoch.batches),
            epochs=epochs or self.recipe.passes(round(self.epoch.batches)),
            cache=self._cache(tunable),
            memory=self._memory(tunable, trainable, total, work),
            latency=(self._inference(plan) + self._added_inference) / self._whole_inference,
        )
        if self.speed is None:
            return cost
        low, seconds, high = self.speed.seconds(self, plan, cost, work)
        return replace(cost, seconds=seconds, low=low, high=high)

    def _stored(self, plan: Plan, total: int) -> int:
        """Return the parameters of the stock model, without those that a method adds and folds away at the end."""
        if METHODS[plan.method].fold is None:
            return total
        return count_kept(self._tunable(replace(plan, method="full", options={})))

    def _added_parameters(self, tunable: Tunable) -> int:
        """Return the parameters of the layer that averages tokens, which the saved model has in addition."""
        if not isinstance(tunable.head, AverageHead):
            return 0
        layer = self.encoder.family.layers(self.encoder.model)[tunable.plan.head - 1]
        return sum(value.numel() for value in layer.parameters())

    def frozen_at(self, plans: Iterable[Plan]) -> list[StatesAt]:
        """Return the states that these plans start from, each once."""
        return list(dict.fromkeys(at for plan in plans if (at := frozen_at(self._tunable(plan))) is not None))

    def _inference(self, plan: Plan) -> float:
        """Return the operations of a prediction for a text of mean length."""
        mean = max(1, round(float(self.load.train.mean())))
        return self.counter.of(plan).inference.of(shape_of(np.array([mean]), is_packed=self.is_packed))

    def _tunable(self, plan: Plan) -> Tunable:
        return make_tunable(self.encoder, plan, outputs=self.load.outputs, kind=self.load.kind, head=self.recipe.head)

    def _epoch(self) -> tuple[Shape, Shape]:
        """Return the shape of an epoch's batches, and that of the largest batch."""
        size = max(1, round(self.recipe.batch * self.load.texts_per_row))
        order = order_of_rows(len(self.load.train), seed=self.recipe.seed, epoch=0)
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        sampled = batches[:_BATCHES_SAMPLED]
        shapes = [shape_of(self.load.train[rows], is_packed=self.is_packed) for rows in sampled]
        epoch = sum(shapes[1:], start=shapes[0]).times(len(batches) / len(sampled))
        return epoch, max(shapes, key=lambda shape: shape.tokens)

    def _pass(self, lengths: Ints) -> Shape:
        """Return the shape of all texts in batches of similar length, as in inference: next to no padding."""
        total = float(lengths.sum())
        batches = max(1.0, total / TOKENS_PER_BATCH)
        return Shape(
            batches=batches,
            texts=len(lengths),
            tokens=total,
            squares=float((lengths.astype(np.float64) ** 2).sum()),
            longest=batches * float(lengths.mean()),
        )

    def _cache(self, tunable: Tunable) -> int:
        """Return the bytes of all splits' frozen states."""
        at = frozen_at(tunable)
        if at is None:
            return 0
        splits = (self.load.others,) if self.recipe.lower_dropout else (self.load.train, self.load.others)
        tokens = sum(len(lengths) if at.reads.is_single else int(lengths.sum()) for lengths in splits)
        return tokens * self.encoder.width * (2 if self.recipe.cache_dtype == "float16" else 4)

    def _memory(self, tunable: Tunable, trainable: int, total: int, work: Work) -> int:
        """Return the peak memory in bytes: the encoder twice, what trains, what runs, and the inputs.

        A trainable parameter has a gradient, AdamW's two moments, its start and its best value so far. What runs is one
        layer in inference on many texts, or a step: all that it saves, and one layer of the backward pass. Freed memory
        is reused and not returned, so that it counts in addition to all that trains.
        """
        whole = sum(value.numel() for value in self.encoder.model.parameters())
        weights = _FLOAT * (whole + total + 5 * trainable)
        runs = max(
            work.one_layer.of(self._largest_pass()), work.saved.of(self.largest) + work.one_layer.of(self.largest)
        )
        around = _LIBRARIES + _VOCABULARY_ENTRY * int(self.config.vocab_size)
        tokens = _TOKEN * int(self.load.train.sum() + self.load.others.sum())
        return int(weights + runs + around + tokens + self._cache(tunable))

    def _largest_pass(self) -> Shape:
        """Return the shape of a batch of the longest texts in inference."""
        lengths = np.concatenate([self.load.train, self.load.others])
        longest = float(lengths.max())
        texts = min(float(len(lengths)), max(1.0, TOKENS_PER_BATCH // longest))
        return Shape(
            batches=1,
            texts=texts,
            tokens=texts * longest,
            squares=0.0 if self.is_packed else texts * longest**2,  # fused attention holds no weights
            longest=longest,
        )
