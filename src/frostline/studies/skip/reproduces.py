"""The figures and tables of Phang et al. 2021 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

COUNTERPARTS = (
    Counterpart(
        item="figure 4",
        arguments="--encoder FacebookAI/roberta-base --protocol paper "
        "--tasks glue/cola,glue/stsb,cosmosqa,glue/mnli,glue/rte,glue/sst2",
        tables=("spans",),
        figures=("spans",),
        differs="Three seeds, so that there are intervals. The tasks are those that section 4.1 names.",
    ),
)
