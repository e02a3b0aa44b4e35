"""The figures and tables of Lee et al. 2019 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

_BASE = "--encoder google-bert/bert-base-uncased --encoder FacebookAI/roberta-base"
_LARGE = "--encoder google-bert/bert-large-uncased --encoder FacebookAI/roberta-large"
_ALL = "--tasks glue/cola,glue/sst2,glue/mrpc,glue/stsb,glue/qqp,glue/mnli_both,glue/qnli,glue/rte"
_DROPOUT = "Frozen layers run without dropout, because their output is cached; `--dropout-frozen` keeps it on."

COUNTERPARTS = (
    Counterpart(
        item="table 3",
        arguments=f"--encoder google-bert/bert-base-uncased --protocol paper {_ALL}",
        tables=("quality", "share"),
        differs=f"{_DROPOUT} STS-B is judged by Spearman's correlation, with Pearson's beside it.",
    ),
    Counterpart(
        item="table 4, figure 1 and table 1 (base encoders)",
        arguments=f"{_BASE} --protocol paper",
        tables=("parameters", "quality", "share"),
        figures=("relative",),
        differs=_DROPOUT,
    ),
    Counterpart(
        item="table 5, figure 1 and table 1 (large encoders)",
        arguments=f"{_LARGE} --protocol paper",
        tables=("parameters", "quality", "share"),
        figures=("relative",),
        differs=_DROPOUT,
    ),
    Counterpart(
        item="table 2",
        arguments=f"{_BASE} {_LARGE} --protocol paper {_ALL} --option step=24",
        tables=("quality",),
        differs="Half and all of the layers are frozen as well, which the table does not have.",
    ),
)
