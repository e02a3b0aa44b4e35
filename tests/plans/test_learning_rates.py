"""Learning rates of the papers for encoders of other widths."""

from __future__ import annotations

import pytest

from frostline.plans.learning_rates import paper_rates, scale_paper_rate
from frostline.records import Plan


@pytest.mark.parametrize("width", [768, 1024, 1600])
def test_base_and_large_encoders_get_the_papers_rates_as_printed(width):
    printed = {1e-6, 5e-6, 8e-6, 1e-5, 2e-5}  # full fine-tuning in table 4 of Xie et al. 2022
    assert {scale_paper_rate(rate, width) for rate in paper_rates(Plan.full(12), 12)} == printed


def test_narrower_encoders_get_proportionally_higher_rates():
    assert scale_paper_rate(2e-5, 384) == pytest.approx(4e-5)
    assert scale_paper_rate(1e-5, 312) == 2.46e-5
