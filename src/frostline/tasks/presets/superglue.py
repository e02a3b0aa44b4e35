"""SuperGLUE: seven tasks, as on the hub (aps/super_glue) and in the official JSON lines, in their usual text forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from frostline.tasks.presets._benchmark import Benchmark, Fields, register
from frostline.tasks.presets._builders import build_pair
from frostline.tasks.raw_table import RawTable, show
from frostline.tasks.texts import parse_choices, parse_texts

_HUB = "aps/super_glue"
_COPA_QUESTIONS = {"cause": "What was the cause?", "effect": "What happened as a result?"}


def _build_copa(table: RawTable) -> Fields:
    questions = table.columns["question"]
    for index, word in enumerate(questions):
        if word not in _COPA_QUESTIONS:
            raise table.error(index, "question", f"{show(word)} is not one of cause, effect")
    texts = [f"{p} {_COPA_QUESTIONS[str(q)]}" for p, q in zip(parse_texts(table, "premise"), questions, strict=True)]
    return Fields(texts=texts, choices=parse_choices(table, ("choice1", "choice2")))


def _build_multirc(table: RawTable) -> Fields:
    """Pair the paragraph with 'question answer'; a few official answers are empty, so answers are not checked."""
    paragraphs = parse_texts(table, "paragraph")
    pairs = [f"{q} {a}" for q, a in zip(parse_texts(table, "question"), table.columns["answer"], strict=True)]
    return Fields(texts=paragraphs, pairs=pairs, groups=paragraphs)


def _tidy_multirc(table: RawTable) -> RawTable:
    """Make every answer a row; an official row holds a paragraph with all its questions and answers."""
    if "passage" not in table.columns:
        return table
    answers = list(chain.from_iterable(_list_answers(table, index) for index in range(len(table))))
    names = ("paragraph", "question", "answer", "label")
    columns = dict(zip(names, map(list, zip(*[cells for _, cells in answers], strict=True)), strict=True))
    return replace(table, columns=columns, rows=[row for row, _ in answers])


def _list_answers(table: RawTable, index: int) -> Iterator[tuple[int, tuple[object, ...]]]:
    try:
        passage = table.columns["passage"][index]
        for question in passage["questions"]:  # type: ignore[index]  # checked by failing
            for answer in question["answers"]:
                yield (
                    table.rows[index],
                    (passage["text"], question["question"], answer["text"], answer["label"]),  # type: ignore[index]
                )
    except (KeyError, TypeError) as problem:
        raise table.error(index, "passage", f"not the official nesting of questions and answers ({problem})") from None


def _build_wic(table: RawTable) -> Fields:
    second = zip(parse_texts(table, "word"), parse_texts(table, "sentence2"), strict=True)
    return Fields(texts=parse_texts(table, "sentence1"), pairs=[f"{word}: {sentence}" for word, sentence in second])


def _tidy_wsc(table: RawTable) -> RawTable:
    """Make the two spans columns; official rows nest them under 'target'."""
    if "target" not in table.columns:
        return table
    spans: dict[str, list[object]] = {"span1_text": [], "span2_text": [], "span2_index": []}
    for index, target in enumerate(table.columns["target"]):
        for key, cells in spans.items():
            if not isinstance(target, dict) or key not in target:
                raise table.error(index, "target", f"no {key!r} in it")
            cells.append(target[key])
    return replace(table, columns={**table.columns, **spans})


def _build_wsc(table: RawTable) -> Fields:
    pronouns, positions = parse_texts(table, "span2_text"), table.columns["span2_index"]
    texts = parse_texts(table, "text")
    marked = []
    for index, (text, pronoun, position) in enumerate(zip(texts, pronouns, positions, strict=True)):
        marked_text = mark_pronoun(text, pronoun, position) if isinstance(position, int) else None
        if marked_text is None:
            raise table.error(index, "span2_text", f"{show(pronoun)} does not occur in the text")
        marked.append(marked_text)
    # Several rows ask about the same sentence: they stay together.
    return Fields(texts=marked, pairs=parse_texts(table, "span1_text"), groups=texts)


def mark_pronoun(text: str, pronoun: str, position: int) -> str | None:
    """Return the text with *asterisks* around the pronoun at (or nearest to) a word position; None if it is missing.

    A few official positions are off by some words, and a word may have quotes or commas attached.
    """
    words = re.split(r"(\s+)", text)
    size = len(pronoun.split())
    spoken = r"\s+".join(re.escape(word) for word in pronoun.split())
    pattern = re.compile(rf"(\W*)({spoken})(\W.*)?", re.IGNORECASE | re.DOTALL)
    starts = [i for i in range(0, len(words), 2) if pattern.fullmatch("".join(words[i : i + 2 * size - 1]))]
    if not starts:
        return None
    lead = 1 if words[0] == "" else 0
    start = min(starts, key=lambda i: abs(i // 2 - lead - position))
    span = "".join(words[start : start + 2 * size - 1])
    marked = pattern.sub(lambda m: f"{m[1]}*{m[2]}*{m[3] or ''}", span, count=1)
    return "".join([*words[:start], marked, *words[start + 2 * size - 1 :]])


register(
    Benchmark(
        name="super_glue/boolq",
        summary="does the passage answer the question with yes?",
        hub=(_HUB, "boolq"),
        folders=("BoolQ",),
        columns={"passage": ("passage",), "question": ("question",), "label": ("label",)},
        build=build_pair("passage", "question", group="passage"),
        label_names=("False", "True"),
        aliases=("boolq",),
        tags=("logical reasoning and comprehension",),
    )
)

register(
    Benchmark(
        name="super_glue/cb",
        summary="is the speaker committed to the clause? (three classes, 250 training rows)",
        hub=(_HUB, "cb"),
        folders=("CB", "CommitmentBank"),
        columns={"premise": ("premise",), "hypothesis": ("hypothesis",), "label": ("label",)},
        build=build_pair("premise", "hypothesis"),
        label_names=("entailment", "contradiction", "neutral"),
        metrics=("accuracy", "macro_f1"),
        aliases=("cb", "commitmentbank"),
        tags=("understanding propositions",),
    )
)

register(
    Benchmark(
        name="super_glue/copa",
        summary="which of two alternatives is the cause or the effect?",
        hub=(_HUB, "copa"),
        folders=("COPA",),
        columns={
            "premise": ("premise",),
            "question": ("question",),
            "choice1": ("choice1",),
            "choice2": ("choice2",),
            "label": ("label",),
        },
        build=_build_copa,
        label_names=("choice1", "choice2"),
        kind="multiple choice",
        aliases=("copa",),
        tags=("commonsense and world knowledge",),
    )
)

register(
    Benchmark(
        name="super_glue/multirc",
        summary="is the answer to a question about the paragraph right?",
        hub=(_HUB, "multirc"),
        folders=("MultiRC",),
        columns={
            "paragraph": ("paragraph",),
            "question": ("question",),
            "answer": ("answer",),
            "label": ("label",),
        },
        tidy=_tidy_multirc,
        build=_build_multirc,
        label_names=("False", "True"),
        metrics=("f1a", "accuracy"),
        aliases=("multirc",),
        tags=("discourse understanding",),
    )
)

register(
    Benchmark(
        name="super_glue/wic",
        summary="is a word used in the same sense in two sentences?",
        hub=(_HUB, "wic"),
        folders=("WiC",),
        columns={
            "word": ("word",),
            "sentence1": ("sentence1",),
            "sentence2": ("sentence2",),
            "label": ("label",),
        },
        build=_build_wic,
        label_names=("False", "True"),
        aliases=("wic",),
    )
)

register(
    Benchmark(
        name="super_glue/wsc",
        summary="does the marked pronoun refer to the noun?",
        hub=(_HUB, "wsc.fixed"),
        folders=("WSC", "WSC.fixed"),
        columns={
            "text": ("text",),
            "span1_text": ("span1_text",),
            "span2_text": ("span2_text",),
            "span2_index": ("span2_index",),
            "label": ("label",),
        },
        tidy=_tidy_wsc,
        build=_build_wsc,
        label_names=("False", "True"),
        aliases=("wsc", "wsc.fixed", "super_glue/wsc.fixed"),
        tags=("discourse understanding",),
    )
)

register(
    Benchmark(
        name="super_glue/rte",
        summary="does the first text entail the second?",
        hub=(_HUB, "rte"),
        folders=("RTE",),
        columns={
            "premise": ("premise", "sentence1"),
            "hypothesis": ("hypothesis", "sentence2"),
            "label": ("label",),
        },
        build=build_pair("premise", "hypothesis"),
        label_names=("entailment", "not_entailment"),
        tags=("textual entailment", "temporal drift"),
    )
)
