"""The figures and tables of Tamkin et al. 2020 that the study `permute` repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

COUNTERPARTS = (
    Counterpart(
        item="figure 4 and table 1",
        arguments="--encoder google-bert/bert-base-uncased --protocol paper",
        tables=("quality", "correlations"),
        figures=("orders", "agreement"),
        differs="The paper does not state how often the two baselines were trained.",
    ),
)
