"""An encoder made ready for a plan."""

from __future__ import annotations

import pytest
from tests.tiny import CONFIGS
from tests.training.tuning_tools import tiny_tunable
from torch import nn


@pytest.mark.parametrize("name", CONFIGS)
def test_a_dropout_that_is_asked_for_reaches_every_dropout_of_the_family(name):
    tunable = tiny_tunable(name, dropout=0.25)
    found = [module.p for module in tunable.modules() if isinstance(module, nn.Dropout)]
    kept_elsewhere = {
        f"{type(module).__name__}.{attribute}": value
        for module in tunable.modules()
        for attribute, value in vars(module).items()
        if "drop" in attribute and isinstance(value, float)
    }
    assert found and set(found) == {0.25}
    assert kept_elsewhere == ({"ModernBertAttention.attention_dropout": 0.25} if name == "modernbert" else {})
