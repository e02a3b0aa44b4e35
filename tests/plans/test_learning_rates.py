"""Learning rates of the papers for encoders of other widths."""

from __future__ import annotations

import pytest

from frostline.plans.learning_rates import paper_rates, scale_paper_rate
from frostline.plans.methods import METHODS
from frostline.records import Plan


@pytest.mark.parametrize("width", [768, 1024, 1600])
def test_base_and_large_encoders_get_the_papers_rates_as_printed(width):
    printed = {1e-6, 5e-6, 8e-6, 1e-5, 2e-5}  # full fine-tuning in table 4 of Xie et al. 2022
    assert {scale_paper_rate(rate, width) for rate in paper_rates(Plan.full(12), 12)} == printed


def test_narrower_encoders_get_proportionally_higher_rates():
    assert scale_paper_rate(2e-5, 384) == pytest.approx(4e-5)
    assert scale_paper_rate(1e-5, 312) == 2.46e-5


@pytest.mark.parametrize("method", ["lora", "prefix", "norm-and-bias"])
@pytest.mark.parametrize("layers", [(11, 12), tuple(range(1, 13))])
def test_methods_that_xie_et_al_do_not_have_are_tried_around_their_own_rate(method, layers):
    rates = paper_rates(Plan(layers=layers, head=12, method=method), 12)
    own = METHODS[method].learning_rate
    assert own in rates and min(rates) < own < max(rates)
    assert max(rates) / min(rates) <= 10
