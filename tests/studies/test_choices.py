"""What a study chose on validation rows, from fields of its points."""

from __future__ import annotations

import pytest
from docs.full_size import points_of

from frostline.studies._choices import choices_of, note_on_protocol

BERT = "--encoder google-bert/bert-base-uncased --tasks glue/cola"


@pytest.mark.parametrize(
    ("command", "choices"),
    [
        ("freeze --option rates=1", []),
        ("freeze --learning-rate 1e-5", []),
        ("freeze --option rates=2", ["the learning rate"]),
        ("freeze --option rates=2 --select best", ["the epoch", "the learning rate"]),
        ("permute", []),
        ("permute --select best", ["the epoch"]),
        ("reinitialise", ["the epoch of the probe"]),
        ("reinitialise --option probe_trials=0", []),
        ("robustness --option probe=linear", []),
        ("probing --option rates=1 --option scores=probe.linear", ["the epoch"]),
        ("surgical --option most=1", []),
        ("surgical --option fisher_rows=validation", ["the layers", "the number of layers"]),
        ("strategies --option rates=1 --option methods=full --select last", []),
    ],
)
def test_choices_follow_from_options_and_recipe(command, choices):
    study, _, options = command.partition(" ")
    assert choices_of(points_of(f"frostline study {study} {BERT} {options}")) == choices


def test_candidates_that_do_not_differ_in_their_recipe_are_still_a_choice():
    first, second, *_ = points_of(f"frostline study permute {BERT} --seeds 1")
    rivals = [type(point)(spec=point.spec, labels=first.labels, is_candidate=True) for point in (first, second)]
    assert choices_of(rivals) == ["the trial"]


def test_the_note_is_about_one_task():
    one = points_of("frostline study permute --encoder google-bert/bert-base-uncased --tasks glue/cola --select best")
    other = points_of("frostline study permute --encoder google-bert/bert-base-uncased --tasks glue/sst2")
    points = [*one, *other]
    assert "the epoch is chosen on the reported rows, so results are optimistic" in note_on_protocol(
        "glue/cola", points
    )
    assert "nothing is chosen on the reported rows" in note_on_protocol("glue/sst2", points)
