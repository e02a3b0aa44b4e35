from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frostline.errors import OptionError
from frostline.tasks import Split, sample
from frostline.tasks.splits import count_duplicates, count_twins, divide, folds, row_contents, strata_of


def numbered(*labels: float, texts: list[str] | None = None, groups: list[str] | None = None) -> Split:
    return Split(
        texts=tuple(texts or [f"text {i}" for i in range(len(labels))]),
        labels=labels,
        groups=tuple(groups) if groups else None,
        rows=tuple(range(1, len(labels) + 1)),
    )


@st.composite
def splits(draw: st.DrawFn, *, unique: bool = False, grouped: bool = False) -> Split:
    """Three classes with at least two rows each; texts from a small stock unless unique."""
    size = draw(st.integers(8, 80))
    labels = [0, 0, 1, 1, 2, 2, *draw(st.lists(st.integers(0, 2), min_size=size - 6, max_size=size - 6))]
    numbers = range(size) if unique else draw(st.lists(st.integers(0, size), min_size=size, max_size=size))
    groups = [f"g{draw(st.integers(0, 9))}" for _ in range(size)] if grouped else None
    return numbered(*labels, texts=[f"text {n}" for n in numbers], groups=groups)


@settings(max_examples=60, deadline=None)
@given(split=splits(grouped=True), size=st.integers(1, 20), seed=st.integers(0, 5))
def test_every_row_is_in_exactly_one_part(split: Split, size: int, seed: int):
    rest, held = divide(split, size, seed=seed, purpose="test")
    assert sorted([*rest.rows, *held.rows]) == list(split.rows)


@settings(max_examples=60, deadline=None)
@given(split=splits(grouped=True), size=st.integers(1, 20), seed=st.integers(0, 5))
def test_neither_groups_nor_copies_cross(split: Split, size: int, seed: int):
    rest, held = divide(split, size, seed=seed, purpose="test")
    assert not set(rest.groups or ()) & set(held.groups or ())
    assert not set(row_contents(rest)) & set(row_contents(held))


@settings(max_examples=60, deadline=None)
@given(split=splits(unique=True), size=st.integers(3, 20), seed=st.integers(0, 5))
def test_single_rows_keep_every_class_in_proportion_to_within_a_row(split: Split, size: int, seed: int):
    size = min(size, len(split) // 3)
    _, held = divide(split, size, seed=seed, purpose="test")
    there, carved = Counter(split.labels), Counter(held.labels)
    for label, count in there.items():
        assert abs(carved[label] - size * count / len(split)) < 1.0 + 1e-9
        assert 1 <= carved[label] < count


@settings(max_examples=40, deadline=None)
@given(split=splits(), size=st.integers(1, 20), seed=st.integers(0, 5))
def test_the_same_seed_gives_the_same_parts_whatever_the_order_of_the_file(split: Split, size: int, seed: int):
    one = divide(split, size, seed=seed, purpose="test")
    assert divide(split, size, seed=seed, purpose="test") == one
    if len(set(row_contents(split))) == len(split):
        turned = divide(split.take(reversed(range(len(split)))), size, seed=seed, purpose="test")
        assert set(turned[1].texts) == set(one[1].texts)


@settings(max_examples=60, deadline=None)
@given(split=splits(grouped=True), count=st.integers(2, 5), seed=st.integers(0, 5))
def test_every_row_is_in_exactly_one_fold_and_neither_groups_nor_copies_are_in_two(split: Split, count, seed):
    parts = folds(split, count, seed=seed, purpose="test")
    assert len(parts) == count
    assert sorted(row for part in parts for row in part) == list(range(len(split)))
    for keys in (split.groups or (), row_contents(split)):
        owners: dict[object, set[int]] = defaultdict(set)
        for number, part in enumerate(parts):
            for row in part:
                owners[keys[row]].add(number)
        assert all(len(numbers) == 1 for numbers in owners.values())


@settings(max_examples=60, deadline=None)
@given(split=splits(unique=True), count=st.integers(2, 5), seed=st.integers(0, 5))
def test_folds_of_single_rows_are_as_large_as_each_other_and_have_every_class_in_proportion(split: Split, count, seed):
    parts = folds(split, count, seed=seed, purpose="test")
    sizes = Counter(split.labels)
    for part in parts:
        assert abs(len(part) - len(split) / count) <= 1 + len(sizes)
        shares = Counter(split.labels[row] for row in part)
        assert all(abs(shares[label] - sizes[label] / count) <= 2 for label in sizes)


def test_folds_depend_on_the_seed_and_not_on_the_order_of_the_file():
    split = numbered(*[0, 1] * 20)
    backwards = split.take(range(39, -1, -1))

    def texts(rows: Split, seed: int) -> list[list[str]]:
        return [sorted(rows.texts[row] for row in part) for part in folds(rows, 4, seed=seed, purpose="test")]

    assert texts(split, 0) == texts(backwards, 0)
    assert texts(split, 0) != texts(split, 1)


def test_another_seed_and_another_purpose_give_other_parts():
    split = numbered(*[i % 2 for i in range(200)])
    picks = [
        divide(split, 20, seed=seed, purpose=purpose)[1].rows
        for seed, purpose in ((0, "test"), (1, "test"), (2, "test"), (0, "validation"))
    ]
    assert len(set(picks)) == 4


def test_the_parts_are_pinned():
    """The same on every machine and in every version: a change here changes everybody's splits."""
    split = numbered(*[i % 2 for i in range(30)])
    assert divide(split, 6, seed=0, purpose="test")[1].rows == (1, 10, 13, 15, 20, 30)


def test_parts_come_in_the_order_of_the_source():
    rest, held = divide(numbered(*[i % 3 for i in range(60)]), 12, seed=3, purpose="test")
    assert list(rest.rows) == sorted(rest.rows)
    assert list(held.rows) == sorted(held.rows)


def test_a_copy_through_a_group_drags_its_group_along():
    texts = ["same", "other", "same", *[f"t{i}" for i in range(17)]]
    groups = ["a", "a", "b", *[f"g{i}" for i in range(17)]]
    for seed in range(20):
        rest, held = divide(
            numbered(*[i % 2 for i in range(20)], texts=texts, groups=groups), 5, seed=seed, purpose="test"
        )
        parts = [set(part.rows) & {1, 2, 3} for part in (rest, held)]
        assert {1, 2, 3} in parts


def test_large_groups_come_near_the_size_asked_for():
    labels = [(i * 7) % 2 for i in range(600)]
    split = numbered(*labels, groups=[f"g{i // 30}" for i in range(600)])
    for seed in range(10):
        _, held = divide(split, 60, seed=seed, purpose="test")
        assert 30 <= len(held) <= 90
        assert all(size == 30 for size in Counter(held.groups).values())


def test_regression_keeps_every_tenth_of_the_values():
    split = numbered(*[(i * 37 % 500) / 10 for i in range(500)])
    _, held = divide(split, 50, seed=0, purpose="test")
    assert set(Counter(strata_of(split)).values()) == {50}
    bins = Counter(strata_of(split)[row - 1] for row in held.rows)
    assert set(bins.values()) == {5}


def test_equal_values_share_a_stratum():
    strata = strata_of(numbered(*[0.0] * 50, *[float(i) for i in range(50)]))
    assert len(set(strata[:51])) == 1


def test_duplicates_and_conflicts_are_counted():
    split = numbered(0, 1, 0, 0, 1, texts=["a", "a", "b", "b", "c"])
    assert count_duplicates(split) == (2, 1)
    assert count_twins(numbered(0, 0, 1, texts=["a", "x", "c"]), split) == 2


def test_pairs_are_duplicates_only_if_both_texts_are():
    one = Split(texts=("a", "a"), pairs=("x", "y"), labels=(0, 1), rows=(1, 2))
    assert count_duplicates(one) == (0, 0)


@settings(max_examples=60, deadline=None)
@given(split=splits(), n=st.integers(3, 60), seed=st.integers(0, 3))
def test_a_balanced_sample_has_as_many_of_every_class(split: Split, n: int, seed: int):
    drawn = sample(split, n, balanced=True, seed=seed)
    sizes = Counter(drawn.labels)
    assert len(sizes) == 3
    assert set(sizes.values()) == {min(n // 3, *Counter(split.labels).values())}
    assert set(drawn.rows) <= set(split.rows)
    assert len(set(drawn.rows)) == len(drawn)


@settings(max_examples=60, deadline=None)
@given(split=splits(), n=st.integers(1, 90), seed=st.integers(0, 3))
def test_a_proportional_sample_has_n_rows_and_the_same_shares(split: Split, n: int, seed: int):
    drawn = sample(split, n, seed=seed)
    assert len(drawn) == min(n, len(split))
    for label, count in Counter(split.labels).items():
        assert abs(Counter(drawn.labels)[label] - len(drawn) * count / len(split)) < 1 + 1e-9


def test_samples_of_the_same_seed_are_nested_nearly():
    """A larger sample of the same seed contains the smaller one: sizes can be compared on shared rows."""
    split = numbered(*[i % 2 for i in range(300)])
    assert set(sample(split, 40, seed=1).rows) <= set(sample(split, 80, seed=1).rows)
    assert sample(split, 40, seed=1).rows != sample(split, 40, seed=2).rows


def test_a_multiple_choice_sample_keeps_questions_whole():
    split = Split(
        texts=tuple(f"q{i}" for i in range(20)),
        choices=(("a", "b", "c"),) * 20,
        labels=tuple(i % 3 for i in range(20)),
        rows=tuple(range(1, 21)),
    )
    drawn = sample(split, 6, seed=0).as_rows()
    sizes: dict[str, int] = defaultdict(int)
    for group, label in zip(drawn.groups or (), drawn.labels, strict=True):
        sizes[group] += 1 + 10 * int(label)
    assert list(sizes.values()) == [13] * 6


def test_samples_that_make_no_sense_are_refused():
    with pytest.raises(OptionError, match="at least one row, but got 0"):
        sample(numbered(0, 1), 0)
    with pytest.raises(OptionError, match="too small for 2 classes"):
        sample(numbered(0, 1), 1, balanced=True)
    with pytest.raises(OptionError, match="needs classes"):
        sample(numbered(0.5, 1.5), 2, balanced=True)
