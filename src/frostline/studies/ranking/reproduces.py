"""The figures and tables of Lodha et al. 2023 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

COUNTERPARTS = (
    Counterpart(
        item="figures 2 to 5",
        arguments="--encoder google-bert/bert-base-cased --protocol paper --option rows=100 --option heads=1 "
        "--option draws=1",
        tables=("ranks", "stability"),
        figures=("ranks", "deviations"),
        differs="Fisher scores are of 100 training rows, where the paper has 100 validation rows and an appendix that "
        "says that validation sets were also trained on.",
    ),
)
