"""The figures and tables of Xie et al. 2022 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

COUNTERPARTS = (
    Counterpart(
        item="figures 6, 7, 8, 15 and 16",
        arguments="--encoder FacebookAI/roberta-large --protocol paper",
        tables=("curves", "robustness"),
        figures=("imbalance", "imbalance-trust", "scarcity", "scarcity-trust", "formulas"),
        differs="Five draws of rows, where the paper shows one.",
    ),
    Counterpart(
        item="table 2 and figure 14",
        arguments="--encoder FacebookAI/roberta-large --protocol paper "
        "--tasks glue/cola,glue/mnli,glue/mrpc,glue/qnli,glue/qqp,glue/sst2",
        tables=("robustness",),
        figures=("states",),
        differs="Zeta is that of equal classes with the most rows that the paper draws from SST-2 and MNLI (fewer "
        "where a class has fewer), where the paper's is of all rows.",
    ),
)
