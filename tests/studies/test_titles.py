"""Titles claim what the rows show, and no more."""

from __future__ import annotations

import pytest

from frostline.studies.freeze.figures import _title_of_half
from frostline.studies.probing.figures import _title_of_moves, _title_of_regression
from frostline.studies.ranking.figures import _deviations, _title_of_stability
from frostline.studies.robustness.figures import IMBALANCE
from frostline.studies.robustness.figures import _title_of_stability as _title_of_settings
from frostline.studies.similarity.figures import _title_of_matrices
from frostline.studies.truncate.figures import _title_of_layers

CASE = {"encoder": "tiny", "task": "letters"}


def test_layers_that_move_as_far_are_all_named():
    rows = [{"panel": "", "epoch": 2, "layer": layer, "rank": 1, "changed": changed}
            for layer, changed in ((1, 0.5), (2, 2.0), (3, 1.0), (6, 2.0))]  # fmt: skip
    assert _deviations(rows).title == "Layers 2 and 6 move the most: 2.0 ranks by epoch 2"
    assert _deviations(rows[:3]).title == "Layer 2 moves the most: 2.0 ranks by epoch 2"


def test_the_first_epoch_is_not_said_to_be_unlike_itself():
    same = [{**CASE, "epoch": epoch, "tau": 1.0} for epoch in (0, 1)]
    assert _title_of_stability(same) == "Every ranking is the same as the first"
    assert _title_of_stability(same[:1]) == "Agreement of rankings with the first one"
    assert _title_of_stability([*same, {**CASE, "epoch": 2, "tau": 0.4}]).endswith("at epoch 2: tau 0.40")


@pytest.mark.parametrize(
    ("own", "title"),
    [
        ((0.99, 0.95, 0.3), "After tuning layers 1 and 2 resemble their pretrained state (CKA 0.9 or more)"),
        ((0.99, 0.5, 0.3), "After tuning layer 1 resembles its pretrained state (CKA 0.9 or more)"),
        ((0.8, 0.5, 0.3), "Tuning changes every layer"),
        ((0.99, 0.95, 0.92), "Tuned layers resemble the pretrained ones"),
    ],
)
def test_which_layers_title_of_matrices_what_they_were_is_read_off_the_diagonal(own, title):
    rows = [{"matrix": "FT-ORIG", "row": layer, "column": column, "cka": cka if column == layer else 0.99}
            for layer, cka in enumerate(own, start=1) for column in (1, 2, 3)]  # fmt: skip
    assert _title_of_matrices(rows) == f"{title}; layer 3 changes the most (CKA {own[-1]:.2f})"


@pytest.mark.parametrize(("share", "said"), [(0.5, "in 50% of the draws"), (1.0, "in 100% of the draws")])
def test_half_of_the_draws_are_not_called_most(share, said):
    row = {**CASE, "is_reference": False, "within_one": share, "smallest_class": 5, "rows": 100}
    assert _title_of_settings([row], IMBALANCE).endswith(said)
    factor = _title_of_settings([{**row, "log_ratio": 0.95}], IMBALANCE)
    assert factor.endswith(f"{said}; variability itself changes by a factor of 2.6")
    other = {**row, "task": "more", "within_one": 0.6}
    assert f"in most draws of {1 + (share > 0.5)} of 2 cases" in _title_of_settings([row, other], IMBALANCE)


def test_a_correlation_is_said_with_how_sure_it_is():
    row = {**CASE, "pearson": -0.49, "pearson_p": 0.32, "slope": -0.03, "layers": 6}
    assert _title_of_regression([row], "probe.head", "pretrained") == (
        "Variability and the quality of a trained head correlate at -0.49 (p 0.32) over 6 layers, pretrained"
    )
    sure = {**row, "task": "more", "pearson_p": 0.01}
    assert "in 2 of 2 cases, beyond chance in 1, tuned" in _title_of_regression([row, sure], "probe.head", "tuned")


def test_moves_that_cancel_are_not_said_to_be_none():
    row = {"score": "variability", "moved": 0.0, "moved_low": -3.0}
    assert _title_of_moves([row]) == "Tuning does not move the most specialised layer, on average"
    assert _title_of_moves([{**row, "moved_low": 0.0}]) == "Tuning does not move the most specialised layer"


def test_a_loss_is_a_cost_and_a_gain_is_none():
    def half(gap):
        return {**CASE, "frozen": 3, "minus_full": gap}

    assert _title_of_half([half(-2.7)]) == "Freezing half of the layers costs 2.7 points on average"
    assert _title_of_half([half(-2.7), {**half(0.4), "task": "more"}]) == (
        "Freezing half of the layers changes quality by -2.7 to 0.4 points on average"
    )


def test_no_layer_is_a_sentence_of_its_own():
    row = {"layers": 6, "can_go_untuned": 0, "can_go_tuned": 0}
    assert (
        _title_of_layers([row])
        == "No layer of 6 is shown to be dispensable, with the model's head as it is or trained further"
    )
    assert _title_of_layers([{**row, "can_go_tuned": 2}]).startswith(
        "Of 6 layers, 0 at the top are shown to be dispensable"
    )
