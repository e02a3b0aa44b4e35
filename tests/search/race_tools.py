"""What tests of runs and races share: a shallow encoder, small data of our own, and proposals with made-up costs."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_model, tiny_tokenizer

from frostline.costs.timing import Speed
from frostline.encoders.loading import quiet_transformers
from frostline.records import Plan
from frostline.records.cost import Cost
from frostline.records.proposal import Proposal
from frostline.search import planning

DEPTH = 2
SPEED = Speed(step=1e-3, layer=1e-3, flop=1e-10, update=1e-9, forward_flop=1e-10, factor=1.25)


def save_shallow(folder: Path, *, seed: int = 0) -> Path:
    """A folder with a tiny model of two layers: few plans, so that a whole run takes seconds."""
    model = tiny_model("bert", seed=seed)
    model.encoder.layer = model.encoder.layer[:DEPTH]
    model.config.num_hidden_layers = DEPTH
    with quiet_transformers():
        model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def write_rows(path: Path, rows: int = 120, *, kind: str = "classification", names: tuple[str, ...] = ("no", "yes")):
    """A CSV file of texts that are all different and whose answer can be read off their letters."""
    draw = random.Random(0)
    lines: list[dict[str, Any]] = []
    for number in range(rows):
        label = draw.randrange(2)
        words = [_word(draw, "abc"), _word(draw, "xyz")]
        text = {"text": f"{words[1 - label]} {number}"}
        if kind == "multiple choice":
            lines.append({"text": f"which {number}", "one": words[label], "two": words[1 - label], "label": label})
        elif kind == "regression":
            lines.append({**text, "label": round(2.5 * label + draw.random(), 3)})
        else:
            lines.append({**text, "label": names[label]})
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]))
        table.writeheader()
        table.writerows(lines)
    return path


def _word(draw: random.Random, letters: str) -> str:
    return "".join(draw.choice(letters) for _ in range(draw.randrange(3, 12)))


def made_up_cost(
    *, price: float = 1.0, trainable: int = 1000, stored: int = 2000, latency: float = 1.0, seconds: float | None = None
) -> Cost:
    """A cost of which only these numbers matter."""
    return Cost(
        epochs=3,
        total=stored,
        trainable=trainable,
        stored=stored,
        stock=True,
        layers=DEPTH,
        forward_per_token=1.0,
        backward_per_token=1.0,
        frozen_flops=price,  # the price is this and all epochs
        epoch_flops=0.0,
        epoch_flops_uncached=0.0,
        steps=1,
        cache=0,
        memory=1,
        latency=latency,
        seconds=seconds,
    )


def made_up_proposal(
    plan: Plan, *sources: str, baseline: str | None = None, joins_late: bool = False, **cost: Any
) -> Proposal:
    """A proposal with a made-up cost."""
    return Proposal(
        plan=plan,
        sources=sources or ("made up",),
        cost=made_up_cost(**cost),
        baselines=(baseline,) if baseline else (),
        joins_late=joins_late,
    )


def skip_slow_parts(patch: pytest.MonkeyPatch) -> None:
    """Let runs time no steps: for tests of whether they run through."""
    patch.setattr(planning, "calibrate", lambda *given, **more: SPEED)


def propose_only(patch: pytest.MonkeyPatch, plans: Sequence[Plan], *, source: str = "a test") -> None:
    """Let runs propose these plans, with their true costs."""

    def propose(scores: object, costs: Any, **options: object) -> tuple[list[Proposal], list[str]]:
        return [
            Proposal(
                plan=plan,
                sources=(source,),
                cost=costs.of(plan),
                baselines=("full fine-tuning",) if plan.embeddings else () if plan.layers else ("the head only",),
                joins_late=plan.embeddings,
            )
            for plan in plans
        ], []

    patch.setattr(planning, "propose", propose)
