from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from frostline.errors import OptionError
from frostline.tasks import Split, load_task

TEXTS = [
    "A plain sentence.",
    'She said "no" twice',
    "commas, and\ttabs",
    "two\nlines",
    "caf\u00e9 \u2603 \U0001f600",
    '"wholly quoted"',
    " spaces around ",
    "semi;colon | bar",
    "x" * 200_000,
    "\u2028 is a line separator, \x85 another",
]
FRAME = pd.DataFrame(
    {
        "text": [f"{text} {i}" for i in range(4) for text in TEXTS],
        "label": [("bad", "good", "mixed")[i % 3] for i in range(4 * len(TEXTS))],
    }
)


def to_json_lines(frame: pd.DataFrame, path: Path) -> None:
    path.write_text("\n".join(json.dumps(row) for row in frame.to_dict("records")), encoding="utf-8")


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    ".jsonl": to_json_lines,
    ".ndjson": to_json_lines,
    ".json": lambda frame, path: path.write_text(json.dumps(frame.to_dict("records"), indent=1), encoding="utf-8"),
    ".parquet": lambda frame, path: frame.to_parquet(path),
}


def saved(frame: pd.DataFrame, folder: Path, suffix: str) -> Path:
    path = folder / f"data{suffix.removesuffix('.gz')}"
    WRITERS[suffix.removesuffix(".gz")](frame, path)
    if suffix.endswith(".gz"):
        packed = path.with_name(path.name + ".gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        return packed
    return path


@pytest.mark.parametrize("suffix", [*WRITERS, *(f"{suffix}.gz" for suffix in WRITERS)])
def test_a_file_gives_the_same_task_as_the_frame_it_was_written_from(suffix: str, tmp_path: Path):
    from_file, from_frame = load_task(saved(FRAME, tmp_path, suffix)), load_task(FRAME)
    assert from_file.train.texts == from_frame.train.texts
    assert from_file.label_names == ("bad", "good", "mixed")
    assert from_file.fingerprint == from_frame.fingerprint
    assert from_file.name == "data"


def test_a_dataset_gives_the_same_task_as_the_frame():
    plain = datasets.Dataset.from_pandas(FRAME)
    classes = plain.class_encode_column("label")
    assert load_task(plain).fingerprint == load_task(FRAME).fingerprint
    assert load_task(classes).fingerprint == load_task(FRAME).fingerprint
    assert load_task(datasets.DatasetDict(train=plain)).fingerprint == load_task(FRAME).fingerprint


@pytest.mark.parametrize("suffix", WRITERS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(
        st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from('"\t\n,'), min_size=1).filter(
            str.strip
        ),
        min_size=24,
        max_size=24,
        unique=True,
    ),
    scores=st.lists(st.floats(-1e6, 1e6).map(lambda x: x + 0.25), min_size=24, max_size=24),
)
def test_the_fingerprint_does_not_depend_on_the_format(
    suffix: str, texts: list[str], scores: list[float], tmp_path_factory: pytest.TempPathFactory
):
    # A quoted cell with a tab and a line break may look like two whole lines, which are then read as such.
    assume(suffix != ".tsv" or not any("\t" in text and "\n" in text for text in texts))
    frame = pd.DataFrame({"text": texts, "score": [1e7, *scores[1:]]})
    path = saved(frame, tmp_path_factory.mktemp("format"), suffix)
    assert load_task(path, kind="regression").fingerprint == load_task(frame, kind="regression").fingerprint


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([0, 1] * 10, ("0", "1")),
        ([1.0, 2.0] * 10, ("1", "2")),
        ([True, False] * 10, ("False", "True")),
        ([10, 9, 100] * 7, ("9", "10", "100")),
    ],
)
def test_numbers_and_booleans_are_classes_alike_in_every_format(
    values: list[Any], names: tuple[str, ...], tmp_path: Path
):
    frame = pd.DataFrame({"text": [f"text {i}" for i in range(len(values))], "label": values})
    tasks = [load_task(frame), *(load_task(saved(frame, tmp_path, suffix)) for suffix in WRITERS)]
    assert {task.label_names for task in tasks} == {names}
    assert len({task.fingerprint for task in tasks}) == 1


def test_single_precision_numbers_are_the_decimals_they_were_written_from(tmp_path: Path):
    scores = [round(i * 0.1, 1) for i in range(30)]
    double = pd.DataFrame({"text": [f"text {i}" for i in range(30)], "score": scores})
    single = double.astype({"score": "float32"})
    as_dataset = datasets.Dataset.from_pandas(single)
    for data in (single, as_dataset, saved(single, tmp_path, ".parquet"), saved(double, tmp_path, ".csv")):
        assert load_task(data).fingerprint == load_task(double).fingerprint


def test_rows_are_the_lines_where_records_start(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"one\ntwo",x\n\nthree,y\n"four\n\nfive",x\nsix,y\n', encoding="utf-8")
    assert load_task(path, splits=False).train.rows == (2, 5, 6, 9)


def test_a_byte_order_mark_and_windows_line_ends_are_read_past(tmp_path: Path):
    path = tmp_path / "a.tsv"
    path.write_bytes("\ufefftext\tlabel\r\na\tx\r\nb\ty\r\n".encode())
    task = load_task(path, splits=False)
    assert (task.train.texts, task.label_names) == (("a", "b"), ("x", "y"))


def test_stray_quotes_in_a_tsv_are_ordinary_characters(tmp_path: Path):
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n" opened here\tx\nand "there\ty\n" closed"\tx\n', encoding="utf-8")
    assert load_task(path, splits=False).train.texts == ('" opened here', 'and "there', '" closed"'.strip('"'))


def test_a_json_file_may_hold_lines(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n', encoding="utf-8")
    assert load_task(path, splits=False).train.rows == (1, 2)


def test_one_file_is_split_and_the_notes_say_how():
    task = load_task(pd.DataFrame({"text": [f"t{i}" for i in range(100)], "label": [i % 2 for i in range(100)]}))
    assert [len(split) for split in task.splits.values()] == [72, 8, 20]
    assert task.guessed_columns == (("text", "text"), ("label", "label"))
    assert task.notes == (
        "columns guessed from their names: text = 'text', label = 'label'",
        "test: 20 rows carved from DataFrame (20%, seed 0)",
        "validation: 8 rows carved from the rest (10%, seed 0)",
    )


def test_copies_stay_together_and_conflicts_are_said():
    texts = [f"t{i // 2}" for i in range(100)]
    task = load_task(pd.DataFrame({"text": texts, "label": [(i // 2 + (i == 99)) % 2 for i in range(100)]}))
    parts = [set(split.texts) for split in task.splits.values()]
    assert sum(map(len, parts)) == 50
    assert "50 rows of train repeat an earlier one; 1 text with more than one label" in task.notes[1]


def frame(start: int, size: int) -> pd.DataFrame:
    return pd.DataFrame({"text": [f"t{i}" for i in range(start, start + size)], "label": [i % 2 for i in range(size)]})


def test_given_splits_are_left_as_they_are_and_shared_rows_counted():
    task = load_task(frame(0, 40), validation=frame(38, 10), test=frame(45, 10))
    assert [len(split) for split in task.splits.values()] == [40, 10, 10]
    assert task.train.texts == tuple(f"t{i}" for i in range(40))
    assert "2 of 10 validation rows also occur in train; given splits are not changed" in task.notes
    assert "3 of 10 test rows also occur in validation; given splits are not changed" in task.notes


def test_only_the_missing_split_is_carved():
    with_test = load_task(frame(0, 40), test=frame(100, 10))
    assert [len(split) for split in with_test.splits.values()] == [36, 4, 10]
    with_validation = load_task(frame(0, 40), validation=frame(100, 10))
    assert [len(split) for split in with_validation.splits.values()] == [32, 10, 8]


def test_a_task_knows_which_splits_were_carved():
    assert load_task(frame(0, 40)).carved == ("validation", "test")
    assert load_task(frame(0, 40), test=frame(100, 10)).carved == ("validation",)
    assert load_task(frame(0, 40), validation=frame(100, 10)).carved == ("test",)


def test_the_paper_protocol_selects_on_the_test_rows_and_says_so():
    task = load_task(frame(0, 40), test=frame(100, 10), protocol="paper")
    assert task.validation == task.test
    assert len(task.train) == 40
    assert "optimistic" in task.notes[-1]
    assert task.protocol == "paper"
    carved = load_task(frame(0, 40), protocol="paper")
    assert carved.validation == carved.test
    assert [len(split) for split in carved.splits.values()] == [32, 8, 8]
    assert carved.protocol == "paper"
    usual = load_task(frame(0, 40))
    assert "optimistic" not in " ".join(usual.notes)
    assert usual.protocol == "held-out"


def test_rows_that_are_left_as_they_are_have_no_protocol_of_the_papers():
    assert load_task(frame(0, 40), protocol="paper", splits=False).protocol == "held-out"


def test_a_validation_split_that_the_paper_protocol_does_not_use_is_said():
    task = load_task(frame(0, 40), validation=frame(50, 10), test=frame(100, 10), protocol="paper")
    assert "the validation split is not used" in task.notes


def test_nothing_is_carved_when_splits_are_not_wanted():
    task = load_task(frame(0, 3), splits=False)
    assert (len(task.train), task.validation, task.test) == (3, None, None)


def test_the_seed_decides_the_carved_rows():
    first, again, other = (load_task(frame(0, 100), seed=seed).test for seed in (1, 1, 2))
    assert first == again != other


def test_a_dataset_dict_brings_its_splits_and_class_names():
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["up", "down"]))

    def part(start: int, size: int, secret: bool = False) -> datasets.Dataset:
        labels = [-1 if secret else i % 2 for i in range(size)]
        texts = [f"t{i}" for i in range(start, start + size)]
        return datasets.Dataset.from_dict({"text": texts, "label": labels}, features=features)

    task = load_task(datasets.DatasetDict(train=part(0, 40), validation=part(40, 10), test=part(50, 10)))
    assert task.label_names == ("up", "down")
    assert [len(split) for split in task.splits.values()] == [40, 10, 10]
    hidden = load_task(datasets.DatasetDict(train=part(0, 40), validation=part(40, 10), test=part(50, 10, secret=True)))
    assert "the test split has no labels and is left out" in hidden.notes
    assert [len(split) for split in hidden.splits.values()] == [32, 10, 8]
    with pytest.raises(OptionError, match="already has a validation split"):
        load_task(datasets.DatasetDict(train=part(0, 40), validation=part(40, 10)), validation=frame(0, 4))


def test_class_names_survive_parquet_and_save_to_disk(tmp_path: Path):
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["up", "down"]))
    part = datasets.Dataset.from_dict(
        {"text": [f"t{i}" for i in range(20)], "label": [i % 2 for i in range(20)]}, features=features
    )
    part.to_parquet(tmp_path / "a.parquet")
    part.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=part).save_to_disk(tmp_path / "all")
    for place in ("a.parquet", "one", "all"):
        assert load_task(str(tmp_path / place)).label_names == ("up", "down")


def test_columns_that_are_not_used_may_hold_anything(tmp_path: Path):
    odd = frame(0, 20).assign(when=pd.Timestamp("2020-01-01", tz="UTC"), raw=b"\xff", none=None)
    odd["nested"] = pd.Series([{"a": i} for i in range(20)], dtype=object)
    odd.to_parquet(tmp_path / "a.parquet")
    assert load_task(tmp_path / "a.parquet").fingerprint == load_task(frame(0, 20)).fingerprint
    assert load_task(odd).fingerprint == load_task(frame(0, 20)).fingerprint


def test_a_shuffled_dataset_is_read_in_its_own_order():
    part = datasets.Dataset.from_pandas(frame(0, 20)).select([5, 3, 4])
    assert load_task(part, splits=False).train.texts == ("t5", "t3", "t4")


def test_multiple_choice_from_columns_and_from_lists(tmp_path: Path):
    rows: list[dict[str, Any]] = [
        {"question": f"q{i}?", "options": ["yes", "no", f"{i}"], "answer_index": i % 3} for i in range(30)
    ]
    to_json_lines(pd.DataFrame(rows), tmp_path / "lists.jsonl")
    wide = pd.DataFrame(
        [
            {
                "question": r["question"],
                **{f"option_{c}": o for c, o in zip("abc", r["options"], strict=True)},
                "label": r["answer_index"],
            }
            for r in rows
        ]
    )
    lists, columns = load_task(tmp_path / "lists.jsonl"), load_task(wide)
    assert lists.kind == columns.kind == "multiple choice"
    assert lists.fingerprint == columns.fingerprint
    assert lists.label_names == ("0", "1", "2")
    assert lists.metrics == ("accuracy",)
    assert (lists.train.choices or ())[0] == ("yes", "no", str(lists.train.rows[0] - 1))
    two = load_task(wide[wide["label"] < 2], choices="option_a,option_b")
    assert two.label_names == ("0", "1")


def test_a_preset_name_gives_way_to_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    saved(frame(0, 20), tmp_path, ".csv").rename("movies.csv")
    assert load_task("movies.csv").name == "movies"
    Path("cola").mkdir()
    with pytest.raises(OptionError, match="not with the preset glue/cola"):
        load_task("cola", text="x")


def test_a_name_too_long_for_any_file_is_an_unknown_preset():
    with pytest.raises(OptionError, match="neither a file nor a preset"):
        load_task("word " * 5000)


def test_importing_the_package_loads_nothing_heavy():
    heavy = "{'torch', 'pandas', 'datasets', 'sklearn', 'scipy', 'pyarrow', 'numpy', 'transformers'}"
    code = (
        f"import sys; from frostline.tasks import PRESETS, load_task; len(PRESETS); print({heavy} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_split_record_comes_out(tmp_path: Path):
    assert isinstance(load_task(frame(0, 20)).train, Split)


def test_the_nameless_first_column_that_pandas_writes_is_left_out(tmp_path):
    frame = pd.DataFrame({"text": [f"text {row}" for row in range(40)], "label": ["a", "b"] * 20})
    frame.to_csv(tmp_path / "with.csv")
    frame.to_csv(tmp_path / "without.csv", index=False)
    assert load_task(tmp_path / "with.csv").fingerprint == load_task(tmp_path / "without.csv").fingerprint
