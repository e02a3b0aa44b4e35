"""What the studies of Lodha et al. 2023 share: their 15 tasks, and where another metric than the official one decides.

The paper's tables 4 and 5 have accuracies (appendix A.2). Those of CoLA can only be Matthews correlations: they go down
to 0.208, where a constant answer has an accuracy of 0.69. What those of STS-B are is not stated. Official metrics
decide on these two.
"""

from __future__ import annotations

LODHA_TASKS = (
    "glue/qnli", "glue/sst2", "glue/cola", "glue/mrpc", "glue/rte", "glue/wnli", "glue/stsb", "glue/qqp", "glue/mnli",
    "super_glue/cb", "super_glue/copa", "super_glue/multirc", "super_glue/wic", "super_glue/wsc", "super_glue/boolq",
)  # fmt: skip
LODHA_METRICS = dict.fromkeys(("glue/mrpc", "glue/qqp", "super_glue/multirc"), "accuracy")
FISHER_ROWS = ("train", "validation")
