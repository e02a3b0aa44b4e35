"""The figures and tables of Tamkin et al. 2020 that the study repeats."""

from __future__ import annotations

from frostline.studies._counterparts import Counterpart

_BERT = "--encoder google-bert/bert-base-uncased --protocol paper"
_ROWS = "Rows are drawn with classes in proportion, where the paper draws them at random."

COUNTERPARTS = (
    Counterpart(
        item="figures 2 and 5",
        arguments=_BERT,
        tables=("quality-500", "quality-5000", "quality-50000", "probing", "trials"),
        figures=("kept", "trials"),
        differs=f"{_ROWS} The patience of the probe's early stopping is unstated.",
    ),
    Counterpart(
        item="figure 3 (blocks re-initialised)",
        arguments=f"{_BERT} --option mode=blocks",
        tables=("quality",),
        figures=("blocks",),
        differs=f"{_ROWS} Ten trials as in appendix C; the paper's list of costs has three.",
    ),
    Counterpart(
        item="figure 3 (blocks preserved)",
        arguments=f"{_BERT} --option mode=preserved",
        tables=("quality",),
        figures=("preserved",),
        differs=f"{_ROWS} Ten trials as in appendix C; the paper's list of costs has three.",
    ),
    Counterpart(
        item="figure 6",
        arguments=f"{_BERT} --option mode=single",
        tables=("quality",),
        figures=("single",),
        differs=_ROWS,
    ),
    Counterpart(
        item="appendix E",
        arguments=f"{_BERT} --epochs 10 --option step=6 --option sizes=500+5000",
        tables=("losses",),
        figures=("losses",),
        differs=f"{_ROWS} The learning rate decays over all ten epochs.",
    ),
    Counterpart(
        item="figure 7",
        arguments=f"{_BERT} --option new_layer_rate=5 --option sizes=5000",
        tables=("quality",),
        figures=("kept",),
        differs=f"{_ROWS} The number of rows is unstated; 5,000 is the paper's default.",
    ),
    Counterpart(
        item="figure 8",
        arguments=f"{_BERT} --option keep_norms=yes --option sizes=5000",
        tables=("quality",),
        figures=("kept",),
        differs=_ROWS,
    ),
)
