"""The figures and tables of Phang et al. 2021 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

COUNTERPARTS = (
    Counterpart(
        item="figure 3",
        arguments="--encoder FacebookAI/roberta-base --encoder albert/albert-large-v2 "
        "--encoder google/electra-base-discriminator --protocol paper",
        tables=("layers", "summary"),
        figures=("layers",),
        differs="Three seeds, so that there are intervals; the paper does not state how many. The recipe of TUNED and "
        "TUNEDORIG is unstated; it is that of tuning. Where TUNEDORIG starts is unstated; it is a fresh head.",
    ),
)
