"""The page on reproduction: for each figure and table of the papers its command, its trials and its GPU-hours.

FLOPs are those of `costs.flops`, counted once for every encoder, head and kind of plan, times the shape of the data:
all texts have the mean length of their task. No trial's model is built.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import ceil

from docs.full_size import official_encoder, trials_of
from docs.official_sizes import SIZES

from frostline.costs.flops import Counter, Shape, Work, weightless_encoder
from frostline.records import Plan, TrialSpec
from frostline.studies import STUDIES, Study
from frostline.studies._counterparts import Counterpart
from frostline.tasks import PRESETS

SPEED = 10e12  # FLOPs per second that a GPU sustains
_WORDS_COUNTED = 1000  # vocabulary of the models that are counted: embeddings are looked up, which costs no FLOPs
_BACKWARD = 3  # a forward and a backward pass, relative to a forward pass
_LIKE_BERT = ("bert", "roberta", "electra", "albert")  # the same matrix products in layers of the same size
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
_CLASSES = 2  # outputs of the heads that are counted; others cost next to nothing


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A command of the page.

    Args:
        study: its study.
        counterpart: what it is the counterpart of.
        paper: author and year.
        command: the command line.
        trials: number of trials.
        hours: GPU-hours at the stated speed.
    """

    study: Study
    counterpart: Counterpart
    paper: str
    command: str
    trials: int
    hours: float


# The page ------------------------------------------------------------------------------------------------------------


def reproduction() -> str:
    """Return an overview and a section for each paper."""
    papers = sorted({entry.paper for entry in entries()}, key=lambda paper: (paper[-4:], paper))
    rows = (
        f"| {entry.paper} | {entry.counterpart.item} | {entry.trials:,} | {_hours(entry.hours)} |"
        for paper in papers
        for entry in entries()
        if entry.paper == paper
    )
    overview = "\n".join(["| paper | figures and tables | trials | GPU-hours |", "|---|---|---:|---:|", *rows])
    return "\n\n".join([overview, known_sizes(), *(_section(paper) for paper in papers)])


def known_sizes() -> str:
    """Return how the sizes of the tasks are known."""
    names = {known: _listed(name for name, size in SIZES.items() if size.known == known)
             for known in ("counted", "published", "memory")}  # fmt: skip
    estimated = _listed(name for name, size in SIZES.items() if not size.is_measured)
    return _wrapped(
        f"The rows of {names['counted']} were counted in the official files. Not verified in files: the training rows "
        f"of {names['published']}, whose totals are as published with the data and whose classes are from memory, and "
        f"those of {names['memory']}, which are from memory. The lengths of {estimated} are estimates. Rows decide the "
        "number of trials only where a study needs a certain number of them; GPU-hours depend on all of it."
    )


def _listed(names: Iterable[str]) -> str:
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} and {last}" if others else last


@cache
def entries() -> tuple[Entry, ...]:
    """Return the commands of all studies."""
    return tuple(_entry(study, part) for _, study in sorted(STUDIES.items()) for part in study.reproduces)


def commands() -> list[str]:
    """Return the command lines of all studies, without counting anything."""
    return [command_of(study, part) for _, study in sorted(STUDIES.items()) for part in study.reproduces]


def command_of(study: Study, part: Counterpart) -> str:
    """Return the command line, with a folder of its own and on a GPU."""
    first = re.split(r", | and | to ", part.item)[0].replace("figures", "figure")
    folder = re.sub(r"[^a-z0-9]+", "-", f"{(part.paper or study.paper).split()[0]} {first}".lower()).strip("-")
    return f"frostline study {study.name} {part.arguments} --device cuda --output {folder}"


def _entry(study: Study, part: Counterpart) -> Entry:
    command = command_of(study, part)
    specs = list(trials_of(command).values())
    tunings = {kind.name: kind.tunings for kind in study.kinds}
    return Entry(
        study=study,
        counterpart=part,
        paper=part.paper or study.paper,
        command=command,
        trials=len(specs),
        hours=flops_of(specs, tunings) / SPEED / 3600,
    )


def _section(paper: str) -> str:
    parts = [f"## {paper}"]
    for entry in entries():
        if entry.paper == paper:
            part = entry.counterpart
            parts += [
                f"### {part.item[0].upper()}{part.item[1:]}",
                f"```console\n$ {entry.command}\n```",
                _wrapped(f"{entry.trials:,} trials, {_hours(entry.hours)} GPU-hours. Study "
                         f"[`{entry.study.name}`](studies.md#{entry.study.name}): {_made(part)}."),
                _wrapped(f"What differs: {part.differs}" if part.differs else "Nothing differs that is known."),
            ]  # fmt: skip
    return "\n\n".join(parts)


def _made(part: Counterpart) -> str:
    kinds = (("table", part.tables), ("figure", part.figures))
    return "; ".join(
        f"{kind}{'s' if len(names) > 1 else ''} {', '.join(f'`{name}`' for name in names)}"
        for kind, names in kinds
        if names
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 128, break_long_words=False, break_on_hyphens=False)


def _hours(hours: float) -> str:
    """Return the hours to two digits."""
    return f"{float(f'{hours:.2g}'):,.0f}" if hours >= 10 else f"{hours:.2g}"


# FLOPs ---------------------------------------------------------------------------------------------------------------


def flops_of(specs: Iterable[TrialSpec], tunings: dict[str, float]) -> float:
    """Return the FLOPs of trials; frozen states of an encoder and a task are computed once for each depth.

    Args:
        specs: the trials.
        tunings: work relative to tuning once, by kind of trial.
    """
    total, frozen = 0.0, {}
    for spec in specs:
        work, task = work_of(spec.encoder.name, spec.recipe.head, spec.plan), spec.task.name
        if not spec.plan.layers and spec.kind != "tune":
            total += work.inference.of(shape(task, _measured_rows(spec))) * (_BACKWARD if _is_fisher(spec) else 1)
            continue
        rows, recipe = spec.train_rows or _rows(spec), spec.recipe
        epoch = shape(task, rows, batch=recipe.batch)
        passes = recipe.passes(round(epoch.batches))
        dev = work.inference.of(shape(task, SIZES[task].dev))
        training = passes * (work.forward.of(epoch) + work.backward.of(epoch))
        total += tunings.get(spec.kind, 1.0) * training + (max(1.0, passes) + 1) * dev
        frozen[spec.encoder.name, task, spec.plan.lowest] = work.frozen.of(shape(task, _rows(spec) + SIZES[task].dev))
    return total + sum(frozen.values())


@cache
def _counter(encoder: str, head: str) -> Counter:
    from transformers import BertConfig

    own = official_encoder(encoder).config
    if own.model_type in _LIKE_BERT:
        config = BertConfig(**{name: getattr(own, name) for name in _SIZES}, vocab_size=_WORDS_COUNTED)
    else:
        config = type(own).from_dict({**own.to_dict(), "vocab_size": _WORDS_COUNTED})
    return Counter(weightless_encoder(config), outputs=_CLASSES, head="mean" if head == "mean" else "family")


_WORK: dict[str, Work] = {}


def work_of(encoder: str, head: str, plan: Plan) -> Work:
    """Return the FLOPs of a plan on an encoder, counted once."""
    key = f"{encoder} {head} {plan.identity()}"
    if key not in _WORK:
        _WORK[key] = _counter(encoder, head).of(plan)
    return _WORK[key]


def shape(task: str, rows: int, *, batch: int = 32) -> Shape:
    """Return the shape of so many rows of a task, all of mean length."""
    preset = PRESETS[task]
    choices = len(preset.label_names) if preset.kind == "multiple choice" else 1
    texts, tokens = rows * choices, SIZES[task].tokens
    batches = ceil(rows / batch)
    return Shape(batches=batches, texts=texts, tokens=texts * tokens, squares=texts * tokens**2,
                 longest=batches * tokens)  # fmt: skip


def _rows(spec: TrialSpec) -> int:
    return sum(SIZES[spec.task.name].train)


def _measured_rows(spec: TrialSpec) -> int:
    """Return the rows whose states a trial measures without training layers."""
    if "settings" in spec.options:  # draws of rows by class, small ones part of large ones
        return sum(max(column) for column in zip(*spec.options["settings"].values(), strict=True))
    return min(int(spec.options.get("examples", 0)) or _rows(spec), _rows(spec))


def _is_fisher(spec: TrialSpec) -> bool:
    return spec.kind.startswith("ranking")
