"""The other tasks of paper 4: Yelp polarity, HellaSwag, Cosmos QA."""

from __future__ import annotations

from dataclasses import replace

from frostline.tasks.benchmark import Benchmark, Fields, register
from frostline.tasks.builders import single
from frostline.tasks.raw_table import Table
from frostline.tasks.texts import parse_choices, parse_texts


def _named_yelp(table: Table) -> Table:
    """The official CSV numbers its classes 1 and 2, the hub 0 and 1."""
    if table.cells != "text":
        return table
    names = {"1": "negative", "2": "positive"}
    return replace(table, columns={**table.columns, "label": [names.get(str(c), c) for c in table.columns["label"]]})


def _hellaswag(table: Table) -> Fields:
    contexts = parse_texts(table, "ctx")
    return Fields(texts=contexts, choices=parse_choices(table, ("endings",)), groups=contexts)


def _cosmosqa(table: Table) -> Fields:
    contexts = parse_texts(table, "context")
    texts = [f"{c} {q}" for c, q in zip(contexts, parse_texts(table, "question"), strict=True)]
    choices = parse_choices(table, ("answer0", "answer1", "answer2", "answer3"))
    return Fields(texts=texts, choices=choices, groups=contexts)


register(
    Benchmark(
        name="yelp_polarity",
        summary="is the review of a business positive?",
        hub=("fancyzhx/yelp_polarity", None),
        folders=("yelp_polarity", "yelp_review_polarity_csv", "yelp_review_polarity", "yelp"),
        columns={"text": ("text",), "label": ("label",)},
        headerless={".csv": ("label", "text")},
        tidy=_named_yelp,
        build=single("text"),
        label_names=("negative", "positive"),
        aliases=("yelp", "yelp_review_polarity"),
        dev_files=("test",),
    )
)

register(
    Benchmark(
        name="hellaswag",
        summary="which of four endings continues the scene?",
        hub=("Rowan/hellaswag", None),
        folders=("hellaswag",),
        columns={"ctx": ("ctx",), "endings": ("endings", "ending_options"), "label": ("label",)},
        build=_hellaswag,
        label_names=("ending0", "ending1", "ending2", "ending3"),
        kind="multiple choice",
        train_files=("train", "hellaswag_train"),
        dev_files=("validation", "val", "dev", "hellaswag_val"),
    )
)

register(
    Benchmark(
        name="cosmosqa",
        summary="which of four answers fits what the story leaves unsaid?",
        hub=("allenai/cosmos_qa", None),
        folders=("cosmosqa", "cosmos_qa"),
        columns={
            "context": ("context",),
            "question": ("question",),
            "answer0": ("answer0",),
            "answer1": ("answer1",),
            "answer2": ("answer2",),
            "answer3": ("answer3",),
            "label": ("label",),
        },
        build=_cosmosqa,
        label_names=("answer0", "answer1", "answer2", "answer3"),
        kind="multiple choice",
        aliases=("cosmos", "cosmos_qa"),
        dev_files=("validation", "valid", "val", "dev"),
    )
)
