"""SuperGLUE: seven tasks, as on the hub (aps/super_glue) and in the official JSON lines, in their usual text forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from frostline.tasks.presets._benchmark import Benchmark, register
from frostline.tasks.raw_table import RawTable, show
from frostline.tasks.texts import parse_texts

_HUB = "aps/super_glue"
_COPA_QUESTIONS = {"cause": "What was the cause?", "effect": "What happened as a result?"}


def _combine_copa(table: RawTable) -> RawTable:
    """Replace the words 'cause' and 'effect' by the questions that they stand for."""
    questions = table.columns["question"]
    for index, word in enumerate(questions):
        if word not in _COPA_QUESTIONS:
            raise table.error(index, "question", f"{show(word)} is not one of cause, effect")
    return table.with_columns({"question": [_COPA_QUESTIONS[str(word)] for word in questions]})


def _combine_multirc(table: RawTable) -> RawTable:
    """Add 'question answer' as a second text; a few official answers are empty, so answers are not checked."""
    pairs = zip(parse_texts(table, "question"), table.columns["answer"], strict=True)
    return table.with_columns({"question and answer": [f"{question} {answer}" for question, answer in pairs]})


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


def _combine_wic(table: RawTable) -> RawTable:
    """Put the word before the second sentence."""
    pairs = zip(parse_texts(table, "word"), parse_texts(table, "sentence2"), strict=True)
    return table.with_columns({"sentence2": [f"{word}: {sentence}" for word, sentence in pairs]})


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
    return table.with_columns(spans)


def _combine_wsc(table: RawTable) -> RawTable:
    """Add the text with its pronoun marked."""
    columns = (parse_texts(table, "text"), parse_texts(table, "span2_text"), table.columns["span2_index"])
    marked = []
    for index, (text, pronoun, position) in enumerate(zip(*columns, strict=True)):
        marked_text = mark_pronoun(text, pronoun, position) if isinstance(position, int) else None
        if marked_text is None:
            raise table.error(index, "span2_text", f"{show(pronoun)} does not occur in the text")
        marked.append(marked_text)
    return table.with_columns({"marked text": marked})


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
        text="passage",
        pair="question",
        group="passage",
        label_names=("False", "True"),
        aliases=("boolq",),
        tags=("logical reasoning and comprehension",),
    ),
    Benchmark(
        name="super_glue/cb",
        summary="is the speaker committed to the clause? (three classes, 250 training rows)",
        hub=(_HUB, "cb"),
        folders=("CB", "CommitmentBank"),
        columns={"premise": ("premise",), "hypothesis": ("hypothesis",), "label": ("label",)},
        text="premise",
        pair="hypothesis",
        label_names=("entailment", "contradiction", "neutral"),
        metrics=("accuracy", "macro_f1"),
        aliases=("cb", "commitmentbank"),
        tags=("understanding propositions",),
    ),
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
        combine=_combine_copa,
        text="premise",
        pair="question",
        choices=("choice1", "choice2"),
        label_names=("choice1", "choice2"),
        kind="multiple choice",
        aliases=("copa",),
        tags=("commonsense and world knowledge",),
    ),
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
        combine=_combine_multirc,
        text="paragraph",
        pair="question and answer",
        group="paragraph",
        label_names=("False", "True"),
        metrics=("f1a", "accuracy"),
        aliases=("multirc",),
        tags=("discourse understanding",),
    ),
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
        combine=_combine_wic,
        text="sentence1",
        pair="sentence2",
        label_names=("False", "True"),
        aliases=("wic",),
        tags=("semantic understanding",),
        own_tags=("semantic understanding",),
    ),
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
        combine=_combine_wsc,
        text="marked text",
        pair="span1_text",
        group="text",  # several rows ask about the same sentence
        label_names=("False", "True"),
        aliases=("wsc", "wsc.fixed", "super_glue/wsc.fixed"),
        tags=("discourse understanding", "coreference resolution", "commonsense and world knowledge"),
        own_tags=("coreference resolution",),
    ),
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
        text="premise",
        pair="hypothesis",
        label_names=("entailment", "not_entailment"),
        tags=("textual entailment", "temporal drift"),
    ),
)
