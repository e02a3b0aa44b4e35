"""The figures and tables of Xie et al. 2022 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

_ROBERTA = "--encoder FacebookAI/roberta-large --protocol paper"
_ADDED = (
    "Tables 8 and 9 have CoLA and SST-2 only. Random layers, (1, l*, L) and the arms up to the middle of the upper "
    "layers are additions."
)

COUNTERPARTS = (
    Counterpart(
        item="table 6, figure 4 and table 8",
        arguments=f"{_ROBERTA} --option methods=full",
        tables=("quality", "pairs"),
        figures=("layers", "plans"),
        differs="Frozen layers below the lowest tuned one run without dropout, because their output is cached; "
        "`--dropout-frozen` keeps it on. The table prints standard deviations, as the paper's tables do (its text says "
        "standard errors). " + _ADDED,
    ),
    Counterpart(
        item="table 7, figure 5 and table 9",
        arguments=f"{_ROBERTA} --option methods=houlsby",
        tables=("quality", "pairs"),
        figures=("layers", "plans"),
        differs="Layers below the lowest adapter run without dropout, because their output is cached; "
        "`--dropout-frozen` keeps it on. " + _ADDED,
    ),
    Counterpart(
        item="table 10",
        arguments=f"{_ROBERTA} --tasks glue/mnli --seeds 1 --epochs 1 --option methods=full --option rates=1 "
        "--option 'arms=full+down-14, cut+up'",
        tables=("costs",),
        differs="Parameters agree to the digit. Seconds depend on the machine; one epoch with one seed is timed, with "
        "the cache of frozen layers, which the paper names as the best implementation and did not build, and without.",
    ),
    Counterpart(
        item="table 11, figure 10 and table 12",
        arguments="--encoder microsoft/deberta-base --protocol paper "
        "--tasks glue/cola,glue/mnli,glue/mrpc,glue/qnli,glue/qqp --option methods=full "
        "--option 'arms=full+top-1+down-1+down-1, cut+middle-1+middle-1, cut'",
        tables=("quality",),
        figures=("layers", "plans"),
        differs="The middle layer is tried on all five tasks, not on MNLI alone.",
    ),
)
