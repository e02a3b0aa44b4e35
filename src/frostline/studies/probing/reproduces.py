"""The figures and tables of Xie et al. 2022 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

_DIFFERS = (
    "The pretrained encoder is also measured on held-out rows, to compare it with the tuned one, and all other layer "
    "scores are measured as well. Each seed trains its own probe."
)

COUNTERPARTS = (
    Counterpart(
        paper="Xie et al. 2022",
        item="figures 3, 11, 12, 13 and 17, and table 1",
        arguments="--encoder FacebookAI/roberta-large --protocol paper",
        tables=("curves", "agreement"),
        figures=("variability", "regression", "tuned", "regression-tuned", "cca"),
        differs=_DIFFERS,
    ),
    Counterpart(
        paper="Xie et al. 2022",
        item="figure 9",
        arguments="--encoder microsoft/deberta-base --protocol paper",
        tables=("curves",),
        figures=("variability",),
        differs=_DIFFERS,
    ),
)
