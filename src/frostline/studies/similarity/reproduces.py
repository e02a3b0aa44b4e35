"""The figures and tables of Phang et al. 2021 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

_CKA = "--protocol paper --option biased=yes --option texts=50000"
_SEEDS = "Three pairs of restarts, where the paper shows one; their mean is drawn."

COUNTERPARTS = (
    Counterpart(
        item="figure 1",
        arguments=f"--encoder albert/albert-large-v2 {_CKA} --tasks glue/rte",
        tables=("matrices", "blocks"),
        figures=("matrices",),
        differs=_SEEDS,
    ),
    Counterpart(
        item="figures 2, 5, 6 and 7",
        arguments="--encoder FacebookAI/roberta-base --encoder albert/albert-large-v2 "
        f"--encoder google/electra-base-discriminator {_CKA}",
        tables=("matrices", "across"),
        figures=("tuned", "tuned-and-pretrained", "restarts", "across"),
        differs=f"{_SEEDS} Models are tuned once more for the comparison between encoders. First-token states are "
        "compared on every task; the paper dims tasks that do not use the first token.",
    ),
)
