"""Tasks and recipe of the experiments of Phang et al. 2021."""

from __future__ import annotations

PHANG_TASKS = (
    "glue/cola", "glue/sst2", "glue/mrpc", "glue/qqp", "glue/stsb", "glue/mnli", "glue/qnli", "glue/rte",
    "super_glue/boolq", "yelp_polarity", "hellaswag", "cosmosqa",
)  # fmt: skip
PHANG_RECIPE = {"batch": 4, "steps": 10_000, "warmup": 0.1}
