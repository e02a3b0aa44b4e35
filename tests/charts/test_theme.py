"""Colours of encoders: the family's own, and never two alike while there are enough."""

from __future__ import annotations

import re

from frostline.charts.theme import CATEGORIES, encoder_colours
from frostline.encoders.families import FAMILIES


def test_every_family_has_a_colour_of_its_own_but_the_two_debertas_share_one():
    colours = {name: family.colour for name, family in FAMILIES.items()}
    assert all(re.fullmatch("#[0-9a-f]{6}", colour or "") for colour in colours.values())
    assert len(set(colours.values())) == len(colours) - 1
    assert colours["deberta"] == colours["deberta-v2"]


def test_an_encoder_has_its_familys_colour_and_a_second_one_another():
    families = {"one": "bert", "two": "bert", "three": "roberta"}
    found = encoder_colours(["one", "two", "three", "one"], families)
    assert found["one"] == FAMILIES["bert"].colour and found["three"] == FAMILIES["roberta"].colour
    assert len(set(found.values())) == 3


def test_an_encoder_of_a_family_without_a_colour_gets_one_that_is_left():
    found = encoder_colours(["strange", "known"], {"strange": "not installed here", "known": "bert"})
    assert found["strange"] in CATEGORIES and found["strange"] != found["known"]
