"""The other tasks of Phang et al. 2021: Yelp polarity, HellaSwag, Cosmos QA."""

from __future__ import annotations

from frostline.tasks.presets._benchmark import Benchmark, register
from frostline.tasks.raw_table import RawTable


def _tidy_yelp(table: RawTable) -> RawTable:
    """Name the classes, whose numbers are 1 and 2 in the official CSV and 0 and 1 on the hub."""
    if table.cells != "text":
        return table
    names = {"1": "negative", "2": "positive"}
    return table.with_columns({"label": [names.get(str(cell), cell) for cell in table.columns["label"]]})


register(
    Benchmark(
        name="yelp_polarity",
        summary="is the review of a business positive?",
        hub=("fancyzhx/yelp_polarity", None),
        folders=("yelp_polarity", "yelp_review_polarity_csv", "yelp_review_polarity", "yelp"),
        columns={"text": ("text",), "label": ("label",)},
        headerless={".csv": ("label", "text")},
        tidy=_tidy_yelp,
        text="text",
        label_names=("negative", "positive"),
        aliases=("yelp", "yelp_review_polarity"),
        dev_files=("test",),
    ),
    Benchmark(
        name="hellaswag",
        summary="which of four endings continues the scene?",
        hub=("Rowan/hellaswag", None),
        folders=("hellaswag",),
        columns={"ctx": ("ctx",), "endings": ("endings", "ending_options"), "label": ("label",)},
        text="ctx",
        choices=("endings",),
        group="ctx",
        label_names=("ending0", "ending1", "ending2", "ending3"),
        kind="multiple choice",
        train_files=("train", "hellaswag_train"),
        dev_files=("validation", "val", "dev", "hellaswag_val"),
    ),
    Benchmark(
        name="cosmosqa",
        summary="which of four answers follows from the story?",
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
        text="context",
        pair="question",
        choices=("answer0", "answer1", "answer2", "answer3"),
        group="context",
        label_names=("answer0", "answer1", "answer2", "answer3"),
        kind="multiple choice",
        aliases=("cosmos", "cosmos_qa"),
        dev_files=("validation", "valid", "val", "dev"),
    ),
)
