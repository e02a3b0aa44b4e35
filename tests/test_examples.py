"""Every public name has an example in its docstring, and every example runs as it is written."""

from __future__ import annotations

import csv
import doctest
import inspect
import random

import pytest

import frostline

NAMES = [name for name in frostline.__all__ if name != "__version__"]
GOOD, BAD = ("lovely", "clear", "warm", "funny"), ("dull", "cold", "noisy", "late")


@pytest.fixture
def reviews(tmp_path, monkeypatch):
    """A folder with `reviews.csv`, which the examples read, as the current one."""
    draw = random.Random(0)
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for number in range(80):
            words, label = ((GOOD, "positive"), (BAD, "negative"))[number % 2]
            table.writerow([f"a {draw.choice(words)} evening in hall {number}", label])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path / "cache"))


@pytest.mark.embedded
@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(name, reviews, capsys):
    documented = inspect.getdoc(getattr(frostline, name)) or ""
    assert "Example:" in documented, f"{name}: its docstring has no example"
    example = doctest.DocTestParser().get_doctest(documented, {"frostline": frostline}, name, None, None)
    assert example.examples, f"{name}: its example has no line that starts with >>>"
    failures = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(example)
    assert failures.failed == 0, capsys.readouterr().out
