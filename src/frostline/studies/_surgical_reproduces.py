"""The figures and tables of Lodha et al. 2023 that the study `surgical` repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

COUNTERPARTS = (
    Counterpart(
        item="figures 1, 6 and 7, and tables 4 and 5",
        arguments="--encoder google-bert/bert-base-cased --protocol paper --option fisher_rows=validation",
        tables=("quality", "relative"),
        figures=("relative", "by-k"),
        differs="Fisher scores are of 100 validation rows, as in section 3.1; models are trained on the training "
        "rows, where the paper's appendix says that validation sets were also trained on. Frozen layers below the "
        "lowest tuned one run without dropout, because their output is cached; `--dropout-frozen` keeps it on. "
        "Random, last and middle layers are additions.",
    ),
)
