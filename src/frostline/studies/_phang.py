"""Tasks and recipe of the experiments of Phang et al. 2021."""

from __future__ import annotations

PHANG_TASKS = (
    "glue/cola", "glue/sst2", "glue/mrpc", "glue/qqp", "glue/stsb", "glue/mnli", "glue/qnli", "glue/rte",
    "super_glue/boolq", "yelp_polarity", "hellaswag", "cosmosqa",
)  # fmt: skip
PHANG_RECIPE = {"batch": 4, "steps": 10_000, "warmup": 0.1, "select": "last"}
PHANG_SELECTION = (
    "Both protocols keep the weights after the last step: the paper fixes the number of steps, though its 'up to "
    "10,000' does not say whether a run can end or be read earlier."
)
