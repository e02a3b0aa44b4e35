"""Layouts put every token where it belongs, whatever the lengths."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from frostline.kernels.batch_layout import Layout, Reads

lengths_lists = st.lists(st.integers(1, 40), min_size=1, max_size=12).map(np.array)


def numbered(layout: Layout) -> torch.Tensor:
    return torch.arange(1.0, layout.tokens + 1)[:, None] * torch.tensor([1.0, -2.0])


@given(lengths_lists)
def test_unpadding_undoes_padding(lengths):
    layout = Layout(lengths)
    states = numbered(layout)
    padded = layout.pad(states)
    assert padded.shape == (len(lengths), lengths.max(), 2)
    assert torch.equal(layout.unpad(padded), states)
    assert not padded[~layout.padded.mask].any()


@given(lengths_lists)
def test_groups_hold_every_token_once_and_can_be_put_back(lengths):
    layout = Layout(lengths)
    gathered = torch.cat([group.index[group.mask] for group in layout.groups])
    assert sorted(gathered.tolist()) == list(range(layout.tokens))
    assert torch.equal(gathered[layout.back], torch.arange(layout.tokens))


@given(lengths_lists)
def test_each_row_of_a_group_is_one_text_in_its_order(lengths):
    layout = Layout(lengths)
    starts = layout.starts.tolist()
    for group in layout.groups:
        for places, mask in zip(group.index, group.mask, strict=True):
            start = int(places[0])
            length = lengths[starts.index(start)]
            assert places[mask].tolist() == list(range(start, start + length))
        assert group.is_full == bool(group.mask.all())


@given(st.lists(st.integers(1, 100), min_size=32, max_size=64).map(np.array))
def test_groups_leave_little_padding(lengths):
    layout = Layout(lengths)
    padded = sum(group.index.numel() for group in layout.groups)
    assert len(layout.groups) <= 6
    assert padded <= 1.25 * layout.tokens


@given(lengths_lists)
def test_pooling_equals_a_loop_over_texts(lengths):
    layout = Layout(lengths)
    states = torch.randn(layout.tokens, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for row, text in enumerate(states.split(lengths.tolist())):
        rest = text[1:] if len(text) > 1 else text
        torch.testing.assert_close(layout.read(states, Reads.FIRST)[row], text[0])
        torch.testing.assert_close(layout.read(states, Reads.LAST)[row], text[-1])
        torch.testing.assert_close(layout.mean(states, skip_first=False)[row], text.mean(0))
        torch.testing.assert_close(layout.mean(states, skip_first=True)[row], rest.mean(0))


@given(lengths_lists)
def test_what_was_read_already_is_not_read_again(lengths):
    layout = Layout(lengths)
    states = numbered(layout)
    assert layout.read(states, Reads.ALL) is states
    for reads in (Reads.FIRST, Reads.LAST):
        assert torch.equal(layout.read(layout.read(states, reads), reads), layout.read(states, reads))
