"""Every mistake in the data is one line that says what, where and what to do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from frostline.errors import DataError, FetchError, OptionError, UserError
from frostline.tasks import load_task

GOOD = "text,label\n" + "".join(f"a fine sentence number {i},{'yes' if i % 2 else 'no'}\n" for i in range(20))


def rows(*extra: str, header: str = "text,label") -> str:
    """A good CSV of 20 rows (lines 2 to 21) with further lines after it."""
    return "\n".join([header, *GOOD.splitlines()[1:], *extra]) + "\n"


def lines(*objects: object, good: int = 6) -> str:
    """JSON lines: `good` proper rows (lines 1 to good), then the given ones."""
    proper = [{"text": f"sentence {i}", "label": "yes" if i % 2 else "no"} for i in range(good)]
    return "\n".join(o if isinstance(o, str) else json.dumps(o) for o in [*proper, *objects]) + "\n"


def numbers(*last: str) -> str:
    return "text,score\n" + "".join(f"sentence {i},{i / 4}\n" for i in range(12)) + "".join(f"x,{v}\n" for v in last)


# name of the file, its content, the message after the file's name (exact), further options
CASES: dict[str, tuple[str, str | bytes, str, dict[str, Any]]] = {
    "an empty file": ("a.csv", "", ": empty file", {}),
    "a file of blank lines": ("a.csv", "\n\n", ": empty file", {}),
    "a header only": ("a.csv", "text,label\n", ": has a header but no rows", {}),
    "empty JSON lines": ("a.jsonl", "\n", ": empty file", {}),
    "a repeated header": ("a.csv", "text,label,text\na,b,c\n", ":1: the header names 'text' more than once", {}),
    "a nameless column": ("a.csv", "text,,label\na,b,c\n", ":1: the header has no name for column 2", {}),
    "a row with too many fields": ("a.csv", rows("one, two,yes"), ":22: 3 fields, expected 2 as in the header", {}),
    "a row with too few fields": ("a.csv", rows("oops"), ":22: 1 field, expected 2 as in the header", {}),
    "a ragged row of a TSV": ("a.tsv", "text\tlabel\na\tx\nb\n", ":3: 1 field, expected 2 as in the header", {}),
    "a quote never closed": (
        *("a.csv", rows('"open,yes', "b,no")),
        *(":22: a quote opens in this row and is never closed; close it or double it", {}),
    ),
    "text after a quote": (
        *("a.csv", rows('"a "quoted" word",yes')),
        *(":22: text follows a closing quote; write a quote inside a quoted field twice", {}),
    ),
    "Latin-1 text": (
        *("a.csv", rows().encode() + "caf\u00e9,yes\n".encode("latin-1")),
        *(f":22: not UTF-8 (byte 0xe9 at offset {len(rows()) + 3}); save the file as UTF-8", {}),
    ),
    "Latin-1 text after a byte order mark": (
        *("a.csv", b"\xef\xbb\xbftext,label\n\xe9,yes\n"),
        *(":2: not UTF-8 (byte 0xe9 at offset 14); save the file as UTF-8", {}),
    ),
    "UTF-16 text": ("a.csv", rows().encode("utf-16"), ": is UTF-16 text; save it as UTF-8", {}),
    "a binary file": ("a.csv", b"text,label\nab\0c,yes\n", ":2: a binary file, not text (NUL at byte 13)", {}),
    "a spreadsheet": (
        *("a.csv", b"PK\x03\x04rest"),
        *(": is a zip archive or spreadsheet; export it as CSV", {}),
    ),
    "gzip without its suffix": (
        *("a.csv", gzip.compress(GOOD.encode())),
        *(": is compressed with gzip; add .gz to its name", {}),
    ),
    "Parquet without its suffix": ("a.csv", b"PAR1....PAR1", ": is a Parquet file; name it .parquet", {}),
    "an unknown suffix": (
        *("a.xlsx", "x"),
        *(
            ": unknown file format '.xlsx'; known: .csv, .tsv, .jsonl, .ndjson, .json, .parquet, each also with .gz",
            {},
        ),
    ),
    "a broken JSON line": ("a.jsonl", lines('{"text": "x", '), ":7: broken JSON at character 15: Expecting", {}),
    "a JSON line that is a list": (
        *("a.jsonl", lines(["x", "yes"])),
        *(':7: a JSON list, expected an object such as {"text": ..., "label": ...}', {}),
    ),
    "a JSON file that is an object": (
        *("a.json", '{"text": ["a"], "label": ["b"]}'),
        *(": contains one JSON object, expected a list of objects, one per row", {}),
    ),
    "a broken JSON file": ("a.json", '[{"text": "a"},\n {"text": }]', ":2: broken JSON at character 11: Expecting", {}),
    "JSON nested without end": (
        *("a.jsonl", lines("[" * 200_000)),
        *(":7: JSON nested too deeply, or a number too long, to be read", {}),
    ),
    "a missing key for the text": (
        *("a.jsonl", lines({"label": "yes"})),
        *(":7: column 'text': has no such key; fill it in or remove the row", {}),
    ),
    "a missing key for the label": (
        *("a.jsonl", lines({"text": "x"})),
        *(":7: column 'label': no such key; label the row or remove it", {}),
    ),
    "a nested text": (
        *("a.jsonl", lines({"text": {"en": "x"}, "label": "yes"})),
        *(":7: column 'text': a nested object ({'en': 'x'}), not a text; move the text to a separate column", {}),
    ),
    "a list for a text": (
        *("a.jsonl", lines({"text": ["a", "b", "c"], "label": "yes"})),
        *(":7: column 'text': a list (['a', 'b', 'c']), not a text; join its parts into one string", {}),
    ),
    "a number for a text": (
        *("a.jsonl", lines({"text": 12, "label": "yes"})),
        *(":7: column 'text': 12 is a number, not a text; is this the right column?", {}),
    ),
    "lone surrogate": (
        *("a.jsonl", lines('{"text": "\\ud83d!", "label": "yes"}')),
        *(":7: column 'text': contains a lone surrogate (invalid Unicode); fix the escape", {}),
    ),
    "an empty text": ("a.csv", rows("  ,yes"), ":22: column 'text': empty text; fill it in or remove the row", {}),
    "several empty texts": (
        *("a.csv", rows(",yes", "fine,no", ",no")),
        *(":22: column 'text': empty text (2 rows: 22, 24); fill it in or remove the row", {}),
    ),
    "an empty second text": (
        *("a.csv", "premise,hypothesis,label\na,b,x\nc,,y\n"),
        *(":3: column 'hypothesis': empty text; fill it in or remove the row", {}),
    ),
    "an unlabelled row": ("a.csv", rows("x,"), ":22: column 'label': no label; label the row or remove it", {}),
    "several unlabelled rows": (
        *("a.csv", rows("x,", "y,yes", "z, ", "w,NaN")),
        *(":22: column 'label': no label (3 rows of 24: 22, 24, 25); label the row or remove it", {}),
    ),
    "a null label": (
        *("a.jsonl", lines({"text": "x", "label": None})),
        *(":7: column 'label': no label; label the row or remove it", {}),
    ),
    "one class only": (
        *("a.csv", "text,label\na,yes\nb,yes\nc,yes\n"),
        *(": column 'label': only one class ('yes') in 3 rows; two or more are needed", {}),
    ),
    "a class with one example": (
        *("a.csv", rows("rare,maybe")),
        *(":22: the only example of class 'maybe'; carving a split needs two or more per class: ", {}),
    ),
    "too few rows to carve": (
        *("a.csv", "text,label\na,x\nb,x\nc,y\nd,y\n"),
        *(": 4 rows of 2 classes are too few to carve test and validation rows from; ", {}),
    ),
    "one text over and over": (
        *("a.csv", "text,label\n" + "same,x\nsame,y\n" * 20),
        *(
            ": all 40 rows have the same text, and copies stay together: nothing is left to test on; is it the right",
            {},
        ),
    ),
    "decimal commas": (
        *("a.csv", "text;label\n".replace(";", ",") + "".join(f'text {i},"0,{i + 10}"\n' for i in range(40))),
        *(": column 'label': 40 different values in 40 rows; numbers are written with a point: 0.10, not 0,10", {}),
    ),
    "fractions as classes": (
        *("a.csv", "text,label\n" + "".join(f"text {i},0.{i + 11}\n" for i in range(9))),
        *(
            ":2: the only example of class '0.11'; carving a split needs two or more per class: add "
            "examples, merge "
            "the class, or (except in studies) give `validation` and `test`, or omit `kind` if these are numbers "
            "to predict",
            {"kind": "classification"},
        ),
    ),
    "no line that names the columns": (
        *("a.csv", "Warm, quiet.,Cold and loud.,bad\n" * 2),
        *(
            ": cannot tell which column is the text and which is the label; choose with `text` and `label` from "
            "'Warm', 'quiet.', 'Cold and loud.', 'bad'; or is the header line missing?",
            {},
        ),
    ),
    "a list in a file of lines": (
        *("a.jsonl", '[{"text": "a", "label": "b"}]'),
        *(
            ':1: a JSON list, expected an object such as {"text": ..., "label": ...}; if the file is one list, name it',
            {},
        ),
    ),
    "a name among numbers": (
        *("a.csv", "text,label\n" + "".join(f"s{i},{i % 2}\n" for i in range(199)) + "odd,n/a\n"),
        *(":201: column 'label': 'n/a' is not a number, but 199 of 200 labels are numbers; fix or remove the row", {}),
    ),
    "a number among names": (
        *("a.csv", rows("x,1")),
        *(":22: column 'label': '1' is a number, but 20 of 21 labels are names; fix it, or make all labels names", {}),
    ),
    "a JSON number among names": (
        *("a.jsonl", lines({"text": "x", "label": 3})),
        *(":7: column 'label': 3 is a number, but 6 of 7 labels are names; fix it, or make all labels names", {}),
    ),
    "a JSON boolean among names": (
        *("a.jsonl", lines({"text": "x", "label": True})),
        *(":7: column 'label': True is a boolean, but 6 of 7 labels are names; fix it, or make all labels names", {}),
    ),
    "labels that differ in case": (
        *("a.csv", rows("x,Yes", "y,Yes")),
        *(":22: column 'label': 'Yes' and 'yes' (row 3) differ only in case; make them one", {}),
    ),
    "labels that are texts": (
        *("a.csv", "text,label\n" + "".join(f"s{i},what is said in row {i}\n" for i in range(9))),
        *(
            ": column 'label': 9 different values in 9 rows; this looks like text, not labels (choose the column with",
            {},
        ),
    ),
    "several labels per row": (
        *("a.jsonl", lines({"text": "an odd one", "label": ["yes", "no"]})),
        *(":7: column 'label': a list (['yes', 'no']); multi-label rows are not supported, give one label per row", {}),
    ),
    "a label per token": (
        *("a.jsonl", lines({"text": "Ann saw Bob", "label": ["B", "O", "B"]}, good=0)),
        *(":1: column 'label': a list of 3 labels, one per token of 'text'; token labels are not supported", {}),
    ),
    "a nested label": (
        *("a.jsonl", lines({"text": "x", "label": {"a": 1}})),
        *(":7: column 'label': {'a': 1} is not a label; give a string or a number", {}),
    ),
    "a word in a regression column": (
        *("a.csv", numbers("high")),
        *(":14: column 'score': 'high' is not a number, but 12 of 13 labels are numbers; fix or remove the row", {}),
    ),
    "words in a column that is to be regressed": (
        *("a.csv", GOOD),
        *(":2: column 'label': 'no' is not a number; regression needs numbers", {"kind": "regression"}),
    ),
    "an infinite number": (
        *("a.csv", numbers("inf")),
        *(":14: column 'score': 'inf' is not a finite number; fix or remove the row", {}),
    ),
    "a number past every float": (
        *(
            "a.jsonl",
            "".join(json.dumps({"text": f"s{i}", "score": i / 3}) + "\n" for i in range(9))
            + '{"text": "x", "score": 1e999}\n',
        ),
        *(":10: column 'score': inf is not a finite number; fix or remove the row", {}),
    ),
    "a regression column with a gap": (
        *("a.csv", numbers("nan")),
        *(":14: column 'score': no label; label the row or remove it", {}),
    ),
    "a regression column that never changes": (
        *("a.csv", "text,score\n" + "".join(f"s{i},2.5\n" for i in range(9))),
        *(": column 'score': every one of 9 rows is 2.5; there is nothing to predict", {}),
    ),
    "a column that is not there": (
        *("a.csv", GOOD),
        *(": no column 'txt' (from `text`) (did you mean text?); it has 'text', 'label'", {"text": "txt"}),
    ),
    "a label column that is not there": (
        *("a.csv", GOOD),
        *(": no column 'stars' (from `label`); it has 'text', 'label'", {"label": "stars"}),
    ),
    "a pair column that is not there": (
        *("a.csv", GOOD),
        *(": no column 'b' (from `text_pair`); it has 'text', 'label'", {"text_pair": "b"}),
    ),
    "names that say nothing": (
        *("a.csv", "foo,bar,baz\na,b,c\n"),
        *(
            ": cannot tell which column is the text and which is the label; choose with `text` and `label` from 'foo'",
            {},
        ),
    ),
    "no name for the label": (
        *("a.csv", "text,bar,baz\na,b,c\n"),
        *(": cannot tell which column is the label; choose with `label` from 'text', 'bar', 'baz'", {}),
    ),
    "no name for the text": (
        *("a.csv", "foo,bar,label\na,b,c\n"),
        *(": cannot tell which column is the text; choose with `text` from 'foo', 'bar', 'label'", {}),
    ),
    "semicolons in a CSV": (
        *("a.csv", "text;label\na;b\n"),
        *(":1: the columns are separated by ';', not by commas; save it with commas", {}),
    ),
    "one column for two roles": (
        *("a.csv", GOOD),
        *(": column 'text' is used twice; give each role its own column", {"text": "text", "label": "text"}),
    ),
    "a broken Parquet file": ("a.parquet", b"PAR1 nothing PAR1", ": broken Parquet file (", {}),
    "a Parquet file cut short": ("a.parquet", b"no parquet at all", ": broken Parquet file (", {}),
    "a broken gzip file": ("a.csv.gz", b"\x1f\x8bbroken", ": broken gzip file (", {}),
    "a gzip file cut short": ("a.csv.gz", gzip.compress(GOOD.encode() * 9)[:-12], ": broken gzip file (", {}),
    "text named .gz": ("a.csv.gz", GOOD, ": broken gzip file (", {}),
    "a choice out of range": (
        *("a.csv", "question,choice1,choice2,label\nq,a,b,0\nr,c,d,2\n"),
        *(":3: column 'label': '2' is not the number of a choice, 0 to 1 (counted from 0)", {}),
    ),
    "one choice only": (
        *("a.jsonl", '{"question": "q", "choices": ["a"], "label": 0}\n'),
        *(":1: column 'choices': needs two or more choices, each a text that is not empty", {}),
    ),
    "choices of different number": (
        *(
            "a.jsonl",
            '{"question": "q", "choices": ["a", "b"], "label": 0}\n'
            '{"question": "r", "choices": ["a", "b", "c"], "label": 0}\n',
        ),
        *(":2: column 'choices': 3 choices, but 2 in the first row", {}),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_is_one_line_with_its_place(case: str, tmp_path: Path) -> None:
    name, content, expected, options = CASES[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as caught:
        load_task(str(path), **options)
    message = str(caught.value)
    assert message.startswith(f"{path}{expected}")
    assert len(message.splitlines()) == 1
    assert caught.value.exit_code == 2


def write(folder: Path, name: str, content: str = GOOD) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


# what is called with a folder that holds train.csv, the kind of error, what its message contains
CALLS: dict[str, tuple[Callable[[Path], object], type[UserError], str]] = {
    "a file that is not there": (
        lambda f: load_task(str(f / "tain.csv")),
        DataError,
        "train.csv?)",
    ),
    "a file with no name near it": (
        lambda f: load_task(str(f / "zzz.jsonl")),
        DataError,
        "zzz.jsonl: no such file; the folder has train.csv",
    ),
    "a folder that is not there": (
        lambda f: load_task(str(f / "no" / "a.csv")),
        DataError,
        "no such file: there is no folder",
    ),
    "a path without a suffix": (lambda f: load_task("./reviws"), DataError, "reviws: no such file"),
    "a folder for a file": (
        lambda f: load_task(str(f)),
        DataError,
        "is a folder; give a file in it, or a preset with `data_dir=",
    ),
    "an unknown preset": (lambda f: load_task("sst3"), OptionError, "neither a file nor a preset (did you mean sst2?)"),
    "an unknown GLUE task": (lambda f: load_task("glue/colla"), OptionError, "(did you mean glue/cola?)"),
    "an unknown name": (lambda f: load_task("qqqqq"), OptionError, "hub datasets are written owner/name"),
    "a hub dataset without a network": (
        lambda f: load_task("someone/some-data"),
        FetchError,
        "someone/some-data: the hub cannot be reached",
    ),
    "a preset without data and network": (
        lambda f: load_task("glue/sst2"),
        FetchError,
        "pass `data_dir=FOLDER` with the official files",
    ),
    "columns for a preset": (
        lambda f: load_task("cola", text="x", data_dir=f),
        OptionError,
        "`text`: not with the preset glue/cola",
    ),
    "a data folder without the task": (
        lambda f: load_task("wsc", data_dir=f / "none"),
        DataError,
        "none: no such folder; `data_dir` takes the folder with the files of super_glue/wsc",
    ),
    "an empty data folder": (
        lambda f: load_task("sst2", data_dir=empty(f / "e")),
        DataError,
        "nothing for glue/sst2; expected a folder SST-2 or SST2, or train.tsv, train.jsonl, train.csv, train.parquet",
    ),
    "a data folder without dev": (
        lambda f: load_task("sst2", data_dir=f),
        DataError,
        "no dev file for glue/sst2; expected dev.tsv",
    ),
    "a data folder for a file": (
        lambda f: load_task(str(f / "train.csv"), data_dir=f),
        OptionError,
        "`data_dir` needs a preset",
    ),
    "a data folder for the embedded data": (
        lambda f: load_task("movies", data_dir=f),
        OptionError,
        "`data_dir`: not with the preset movies",
    ),
    "a revision for a file": (
        lambda f: load_task(f / "train.csv", revision="main"),
        OptionError,
        "`revision` needs a hub dataset",
    ),
    "an unknown label in validation": (
        lambda f: load_task(f / "train.csv", validation=write(f, "v.csv", "text,label\na,yes\nb,yess\n")),
        DataError,
        "v.csv:3: column 'label': 'yess' is not one of no, yes (did you mean yes?)",
    ),
    "a test file without the label": (
        lambda f: load_task(f / "train.csv", test=write(f, "t.csv", "text,lable\na,yes\n")),
        DataError,
        "t.csv: no column 'label' (from the training rows) (did you mean lable?); it has 'text', 'lable'",
    ),
    "a word in a regression validation": (
        lambda f: load_task(write(f, "n.csv", numbers()), validation=write(f, "v.csv", "text,score\na,1.5\nb,good\n")),
        DataError,
        "v.csv:3: column 'score': 'good' is not a number; this column is a regression target",
    ),
    "an unlabelled test row": (
        lambda f: load_task(f / "train.csv", test=write(f, "t.csv", "text,label\na,yes\nb,\n")),
        DataError,
        "t.csv:3: column 'label': no label",
    ),
    "a metric that does not exist": (
        lambda f: load_task(f / "train.csv", metric="acuracy"),
        OptionError,
        "unknown task metric 'acuracy' (did you mean accuracy?)",
    ),
    "a metric for another kind": (
        lambda f: load_task(f / "train.csv", metric="pearson"),
        OptionError,
        "metric 'pearson' does not fit classification; these do: accuracy, macro_f1, f1, f1a, matthews",
    ),
    "a binary metric for three classes": (
        lambda f: load_task(
            write(f, "3.csv", "text,label\n" + "".join(f"s{i},{'abc'[i % 3]}\n" for i in range(30))), metric="f1"
        ),
        OptionError,
        "metric 'f1' does not fit classification with 3 classes; these do: accuracy, macro_f1, matthews",
    ),
    "an unknown kind": (
        lambda f: load_task(f / "train.csv", kind="regresion"),  # type: ignore[arg-type]
        OptionError,
        "unknown kind 'regresion' (did you mean regression?)",
    ),
    "an unknown protocol": (
        lambda f: load_task(f / "train.csv", protocol="papers"),  # type: ignore[arg-type]
        OptionError,
        "unknown protocol 'papers'; known: held-out, paper",
    ),
    "something that is no data": (
        lambda f: load_task(42),
        OptionError,
        "cannot read a task from a int; give a file, a DataFrame or a Dataset",
    ),
    "an empty DatasetDict": (lambda f: load_task({}), DataError, "DatasetDict: no split named train; it is empty"),
    "a dictionary without train": (
        lambda f: load_task({"a": pd.DataFrame(), "b": pd.DataFrame()}),
        DataError,
        "DatasetDict: no split named train; it has a, b",
    ),
    "a dictionary of lists": (
        lambda f: load_task({"text": ["a"], "train": ["b"]}),
        OptionError,
        "DatasetDict[train]: cannot read a task from a list",
    ),
    "an empty DataFrame": (
        lambda f: load_task(pd.DataFrame({"text": [], "label": []})),
        DataError,
        "DataFrame: has no rows",
    ),
    "a DataFrame with two columns of a name": (
        lambda f: load_task(pd.DataFrame([["a", "b", "c"]], columns=["text", "text", "label"])),
        DataError,
        "DataFrame: more than one column is named 'text'",
    ),
    "a DataFrame with a missing label": (
        lambda f: load_task(pd.DataFrame({"text": ["a", "b", "c"], "label": ["x", None, "y"]})),
        DataError,
        "DataFrame:2: column 'label': no label",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_bad_call_is_one_line(case: str, tmp_path: Path) -> None:
    write(tmp_path, "train.csv")
    call, kind, expected = CALLS[case]
    with pytest.raises(kind) as caught:
        call(tmp_path)
    assert expected in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_good_file_that_the_bad_ones_are_made_of_loads(tmp_path: Path) -> None:
    assert len(load_task(write(tmp_path, "a.csv")).test or ()) == 4


def test_a_saved_dataset_that_is_damaged_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    write(tmp_path / "saved", "state.json", "{")
    with pytest.raises(DataError, match="the saved dataset cannot be loaded"):
        load_task(str(tmp_path / "saved"))
