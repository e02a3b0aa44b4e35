"""Mistakes on the command line: each one clear line on stderr, exit code 2, nothing on stdout, no traceback."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tiny import save_tiny

from frostline.cli import invoke

ROWS = [(f"text number {row}", "warm" if row % 2 else "cold") for row in range(40)]


def csv(rows, header="text,label") -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def write(name: str, content: str | bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return [str(path)]

    return make


def with_flags(make: Callable[[Path], list[str]], *flags: str) -> Callable[[Path], list[str]]:
    return lambda folder: [*make(folder), *flags]


def good(folder: Path) -> list[str]:
    return write("good.csv", csv(ROWS))(folder)


def jsonl(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def two_splits(folder: Path) -> list[str]:
    write("test.csv", csv([("a text", "tepid"), *ROWS[:5]]))(folder)
    return [*good(folder), "--test", str(folder / "test.csv")]


def infinite_label(folder: Path) -> list[str]:
    numbered = [(text, row % 2) for row, (text, _) in enumerate(ROWS)]
    write("test.csv", csv([("a text", "inf"), *numbered[:5]]))(folder)
    return [*write("train.csv", csv(numbered))(folder), "--test", str(folder / "test.csv")]


# What the user typed or wrote; what the line must contain.
MISTAKES: dict[str, tuple[Callable[[Path], list[str]], list[str]]] = {
    # Files
    "missing file": (lambda f: [str(f / "revews.csv")], ["revews.csv", "no such file"]),
    "a folder": (lambda f: [str(f)], ["folder"]),
    "unknown suffix": (write("data.xlsx", b"PK"), ["data.xlsx", ".csv"]),
    "empty file": (write("empty.csv", ""), ["empty.csv", "empty"]),
    "header only": (write("header.csv", "text,label\n"), ["header.csv", "no rows"]),
    "duplicate header": (write("twice.csv", "text,text,label\na,b,c\n"), ["twice.csv", "'text'"]),
    "ragged row": (write("ragged.csv", csv(ROWS) + "one,two,three\n"), ["ragged.csv:42", "3", "2"]),
    "wrong encoding": (
        write("latin.csv", csv([*ROWS, ("café", "warm")]).encode("latin-1")),
        ["latin.csv", "UTF-8"],
    ),
    "binary file": (write("binary.csv", b"text,label\n\x00\x01\x02\x00,1\n"), ["binary.csv"]),
    "UTF-16": (write("wide.csv", csv(ROWS).encode("utf-16")), ["wide.csv", "UTF-16"]),
    "broken gzip": (write("data.csv.gz", gzip.compress(csv(ROWS).encode())[:-20]), ["data.csv.gz"]),
    "not gzip": (write("data.csv.gz", csv(ROWS)), ["data.csv.gz"]),
    "broken parquet": (write("data.parquet", b"PAR1 nothing PAR1"), ["data.parquet"]),
    "broken JSON line": (write("data.jsonl", jsonl([{"text": "a", "label": 1}]) + "{oops\n"), ["data.jsonl:2"]),
    "JSON line that is a list": (write("data.jsonl", "[1, 2]\n"), ["data.jsonl:1"]),
    "missing key": (
        write("data.jsonl", jsonl([{"text": "a", "label": "x"}, {"text": "b"}])),
        ["data.jsonl:2", "label"],
    ),
    # Columns
    "missing text column": (with_flags(good, "--text", "txt"), ["good.csv", "'txt'", "did you mean text?"]),
    "missing label column": (with_flags(good, "--label", "lable"), ["good.csv", "'lable'", "did you mean label?"]),
    "missing pair column": (with_flags(good, "--text-pair", "other"), ["good.csv", "'other'"]),
    "no guessable column": (write("odd.csv", csv([(1, 2, 3)] * 9, "alpha,beta,gamma")), ["odd.csv", "--text"]),
    "same column twice": (with_flags(good, "--text", "text", "--label", "text"), ["text"]),
    # Labels
    "one class": (write("one.csv", csv([(text, "warm") for text, _ in ROWS])), ["one.csv", "warm"]),
    "unlabelled rows": (write("gaps.csv", csv([*ROWS, ("a text", "")])), ["gaps.csv:42", "label"]),
    "mixed label types": (
        write("mixed.jsonl", jsonl([{"text": f"t{i}", "label": "a" if i == 5 else i % 2} for i in range(30)])),
        ["mixed.jsonl:6", "label"],
    ),
    "multi-label rows": (
        write("multi.jsonl", jsonl([{"text": f"t{i}", "label": ["a", "b"]} for i in range(30)])),
        ["multi.jsonl:1", "label"],
    ),
    "labels that are texts": (write("texts.csv", csv([(f"t {i}", f"label {i}") for i in range(60)])), ["label"]),
    "a label that only the test file has": (two_splits, ["test.csv:2", "'tepid'", "cold, warm"]),
    "numbers to predict": (
        with_flags(write("numbers.csv", csv([(f"text {i}", i * 0.37) for i in range(60)])), "--scores", "variability"),
        ["variability needs classes"],
    ),
    "numbers to predict, streamed": (
        with_flags(write("numbers.csv", csv([(f"text {i}", i * 0.37) for i in range(60)])), "--stream"),
        ["needs classes"],
    ),
    "unparsable number": (
        write("numbers.csv", csv([(f"text {i}", "n/a" if i == 7 else i * 0.37) for i in range(60)])),
        ["numbers.csv:9", "n/a"],
    ),
    "single example of a class": (write("rare.csv", csv([*ROWS, ("one more", "hot")])), ["hot"]),
    # Texts
    "empty text": (write("blank.csv", csv([*ROWS, ("", "warm")])), ["blank.csv:42", "text"]),
    "text that is a number": (
        write("numbers.jsonl", jsonl([{"text": i, "label": i % 2} for i in range(30)])),
        ["numbers.jsonl:1", "text"],
    ),
    # Presets and hub
    "unknown preset": (lambda f: ["glue/sst3"], ["glue/sst3", "did you mean glue/sst2?"]),
    "preset without hub": (lambda f: ["glue/rte"], ["rte", "--data-dir"]),
    "preset in a wrong folder": (lambda f: ["glue/rte", "--data-dir", str(f)], ["rte", "RTE"]),
    "data folder that is not there": (lambda f: ["glue/rte", "--data-dir", str(f / "no")], ["no"]),
    "hub dataset without hub": (lambda f: ["someone/some-data"], ["someone/some-data", "hub"]),
    "data folder for a file": (with_flags(good, "--data-dir", "."), ["data"]),
    # Encoders
    "missing model folder": (with_flags(good, "--model", "./nowhere"), ["./nowhere", "no such folder"]),
    "hub model without hub": (with_flags(good, "--model", "some/encoder"), ["'some/encoder'", "hub"]),
    "empty model folder": (lambda f: [*good(f), "--model", str(f)], ["has no config.json"]),
    # Options
    "unknown pooling": (with_flags(good, "--pooling", "max"), ["max", "mean", "--help"]),
    "text where a number belongs": (with_flags(good, "--examples", "many"), ["many", "--examples"]),
    "too few examples": (with_flags(good, "--examples", "1"), ["--examples", "1"]),
    "negative seed": (with_flags(good, "--seed", "-1"), ["--seed"]),
    "length zero": (with_flags(good, "--max-length", "0"), ["--max-length"]),
    "length beyond the model": (with_flags(good, "--max-length", "9999"), ["max length 9999", "64"]),
    "length without room": (with_flags(good, "--max-length", "2"), ["max length 2", "no room"]),
    "unknown score": (with_flags(good, "--scores", "variabilty"), ["'variabilty'", "did you mean variability?"]),
    "unknown null": (with_flags(good, "--nulls", "chance"), ["'chance'", "shuffled, random"]),
    "unknown rows": (with_flags(good, "--rows", "dev"), ["dev", "validation"]),
    "folder to save that is a file": (lambda f: [*good(f), "--save", str(f / "good.csv")], ["is a file"]),
    "folder to save with other files": (lambda f: [*good(f), "--save", str(f)], ["contains other files"]),
    "metric that does not fit": (with_flags(good, "--metric", "spearman"), ["spearman", "accuracy"]),
    "unknown device": (with_flags(good, "--device", "tpu9"), ["device 'tpu9'", "cpu"]),
    "device that computes nothing": (with_flags(good, "--device", "meta"), ["device 'meta'", "cpu"]),
    "too many threads": (with_flags(good, "--threads", "99999999999"), ["--threads", "99999999999"]),
    "model name too long": (with_flags(good, "--model", "m" * 300), ["mmm"]),
    "infinite label in a test file": (infinite_label, ["test.csv:2", "inf"]),
    "data given twice": (with_flags(good, "--data", "movies"), ["data given twice"]),
    "unknown option": (with_flags(good, "--pool", "mean"), ["--pool"]),
    "no data at all": (lambda f: [""], ["data ''"]),
    "threads that would crash": (with_flags(good, "--threads", "2048"), ["--threads", "2048"]),
    "semicolons, quoted": (
        write("excel.csv", '"text";"label"\n"so, so";"a"\n"well";"b"\n'),
        ["excel.csv:1", "separated by ';'"],
    ),
    "semicolons and commas": (
        write("excel.csv", "text;label\nso, so;a\nwell;b\n"),
        ["excel.csv:1", "separated by ';'"],
    ),
    "tabs in a .csv": (write("tabs.csv", "text\tlabel\none\ta\ntwo\tb\n"), ["tabs.csv:1", "separated by '\\t'"]),
    "lone surrogate": (
        write("half.jsonl", "".join(f'{{"text": "a \\ud83d {row}", "label": {row % 2}}}\n' for row in range(40))),
        ["half.jsonl:1", "lone surrogate"],
    ),
    "revision of a folder": (lambda f: [*good(f), "--model", str(f), "--revision", "main"], ["--revision"]),
    "two files": (with_flags(good, "more.csv"), ["more.csv"]),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


def test_there_are_at_least_forty():
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(mistake, model, tmp_path, capsys):
    make, expected = MISTAKES[mistake]
    arguments = make(tmp_path)
    if "--model" not in arguments:
        arguments += ["--model", model]
    code = invoke(["measure", *arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("frostline: ")
    for part in expected:
        assert part in err, err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["mesure"], "measure"),
        (["encoders", "bert"], "bert"),
        (["--verbose"], "--verbose"),
    ],
)
def test_a_wrong_command_is_one_line_too(arguments, expected, capsys):
    assert invoke(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert expected in err
