"""What paper 4's experiments have in common: its tasks, and how it trains."""

from __future__ import annotations

PAPER_4_TASKS = (
    "glue/cola", "glue/sst2", "glue/mrpc", "glue/qqp", "glue/stsb", "glue/mnli", "glue/qnli", "glue/rte",
    "super_glue/boolq", "yelp_polarity", "hellaswag", "cosmosqa",
)  # fmt: skip
PAPER_4_RECIPE = {"batch": 4, "steps": 10_000, "warmup": 0.1}
