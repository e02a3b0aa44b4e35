"""The figures and tables of Lodha et al. 2023 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

COUNTERPARTS = (
    Counterpart(
        item="figures 2 to 5",
        arguments="--encoder google-bert/bert-base-cased --protocol paper --option rows=100 --option heads=1 "
        "--option draws=1 --option fisher_rows=validation",
        tables=("ranks", "stability"),
        figures=("ranks", "deviations"),
        differs="Fisher scores are of 100 validation rows, as in section 3.1; models are trained on the training rows, "
        "where the paper's appendix says that validation sets were also trained on.",
    ),
)
