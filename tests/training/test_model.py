"""An encoder made ready for a plan."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tiny import CONFIGS
from tests.training.tuning_tools import examples_for, many_labels, many_tokens, tiny_tunable
from torch import nn

from frostline.encoders.families import FAMILIES
from frostline.kernels.batch_layout import Reads
from frostline.records import Plan
from frostline.training.dataset import frozen_at


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


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("plan", [Plan.span(3, 4, 4), Plan(layers=(), head=3)], ids=str)
@pytest.mark.parametrize("name", ["bert", "mpnet", "modernbert"])  # unpadded, with a position bias, padded
def test_a_head_that_reads_the_last_token_is_given_each_texts_own(name, plan, padded, monkeypatch):
    monkeypatch.setattr(type(FAMILIES[name]), "head_reads", lambda family, config, kind: Reads.LAST)
    tunable, tokens = tiny_tunable(name, plan), many_tokens()
    found = examples_for(tunable, tokens, many_labels()).logits(tunable, np.arange(len(tokens)), padded=padded)
    encoder, layout = tunable.encoder, tunable.encoder.layout(tokens)
    with torch.no_grad():
        whole = encoder.run(encoder.embed(tokens, layout), layout, 1, plan.head, padded=True)
        last = torch.stack([text[-1] for text in whole.split(tokens.lengths.tolist())])
        expected = tunable.head.stock(inputs_embeds=last[:, None]).logits
    torch.testing.assert_close(found.detach(), expected, atol=1e-5, rtol=1e-5)
    assert frozen_at(tunable).reads is (Reads.ALL if plan.layers else Reads.LAST)
