"""Tables and groups of their rows."""

from __future__ import annotations

from frostline.records.table import group_by


def test_groups_and_their_items_keep_the_order_in_which_they_come():
    groups = group_by(["bb", "a", "cc", "d", "ee"], len)
    assert list(groups.items()) == [(2, ["bb", "cc", "ee"]), (1, ["a", "d"])]
