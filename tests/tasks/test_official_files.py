"""The real GLUE and SuperGLUE files, where they lie beside the checkout: official row counts and label balances."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from frostline.tasks import PRESETS, Task, load_task
from frostline.tasks.splits import row_contents

# preset: rows of train and dev, labels of train and of dev in the order of the label names
OFFICIAL: dict[str, tuple[int, int, tuple[int, ...], tuple[int, ...]]] = {
    "glue/cola": (8551, 1043, (2528, 6023), (322, 721)),
    "glue/sst2": (67349, 872, (29780, 37569), (428, 444)),
    "glue/mrpc": (3668, 408, (1194, 2474), (129, 279)),
    "glue/stsb": (5749, 1500, (), ()),
    "glue/wnli": (635, 71, (323, 312), (40, 31)),
    "super_glue/cb": (250, 56, (115, 119, 16), (23, 28, 5)),
    "super_glue/copa": (400, 100, (195, 205), (55, 45)),
    "super_glue/multirc": (27243, 4848, (15218, 12025), (2773, 2075)),
    "super_glue/wsc": (554, 104, (295, 259), (66, 38)),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    found = Path(__file__).resolve().parents[3] / "shared" / "glue"
    if not found.is_dir():
        pytest.skip("no folder shared/glue beside the checkout")
    return found


@cache
def official(name: str, folder: Path) -> Task:
    return load_task(name, data_dir=folder)


def balance(*labels: float) -> tuple[int, ...]:
    counts = Counter(labels)
    return tuple(counts[number] for number in sorted(counts))


@pytest.mark.parametrize("name", OFFICIAL)
def test_row_counts_and_balances_are_the_official_ones(name: str, folder: Path):
    n_train, n_dev, train_balance, dev_balance = OFFICIAL[name]
    task = official(name, folder)
    assert task.validation is not None
    assert task.test is not None
    assert len(task.train) + len(task.validation) == n_train
    assert len(task.test) == n_dev
    if task.kind != "regression":
        assert balance(*task.train.labels, *task.validation.labels) == train_balance
        assert balance(*task.test.labels) == dev_balance


@pytest.mark.parametrize("name", OFFICIAL)
def test_validation_is_a_tenth_of_train_with_the_same_balance(name: str, folder: Path):
    task = official(name, folder)
    assert task.validation is not None
    n_train = OFFICIAL[name][0]
    assert len(task.validation) == pytest.approx(n_train / 10, rel=0.02, abs=1)
    if task.kind != "regression":
        for label in range(len(task.label_names)):
            shares = [split.labels.count(label) / len(split) for split in (task.train, task.validation)]
            assert shares[0] == pytest.approx(shares[1], abs=0.005 + 1 / len(task.validation))


@pytest.mark.parametrize("name", OFFICIAL)
def test_no_carved_validation_row_has_a_twin_or_a_group_in_train(name: str, folder: Path):
    task = official(name, folder)
    assert task.validation is not None
    assert not set(row_contents(task.train)) & set(row_contents(task.validation))
    assert not set(task.train.groups or ()) & set(task.validation.groups or ())


def test_the_similarity_scores_span_the_scale(folder: Path):
    task = official("glue/stsb", folder)
    assert (min(task.train.labels), max(task.train.labels)) == (0.0, 5.0)
    assert sum(task.test.labels) / 1500 == pytest.approx(2.36, abs=0.01)  # type: ignore[union-attr]


def test_mnli_dev_alone_is_split_by_premise_and_says_so(folder: Path):
    task = load_task("mnli", data_dir=folder)
    assert sum(len(split) for split in task.splits.values()) == 9815
    labels = [label for split in task.splits.values() for label in split.labels]
    assert balance(*labels) == (3479, 3123, 3213)
    assert len(task.splits["test"]) == pytest.approx(9815 / 5, abs=3)
    premises = [set(split.texts) for split in task.splits.values()]
    assert not premises[0] & premises[2]
    assert not premises[0] & premises[1]
    assert not premises[1] & premises[2]
    assert "no training file for glue/mnli" in task.notes[0]
    assert "dev_matched.jsonl" in task.notes[1]


def test_most_wnli_dev_premises_also_occur_in_train(folder: Path):
    """65 of 71: why our own splits keep premises together."""
    task = load_task("wnli", data_dir=folder, protocol="paper")
    assert task.test is not None
    assert sum(premise in set(task.train.texts) for premise in task.test.texts) == 65


def test_the_paper_protocol_keeps_train_whole_and_selects_on_dev(folder: Path):
    task = load_task("cb", data_dir=folder, protocol="paper")
    assert (len(task.train), task.validation) == (250, task.test)
    assert "optimistic" in task.notes[-1]


@pytest.mark.parametrize("name", OFFICIAL)
def test_every_task_has_the_metric_of_the_papers(name: str, folder: Path):
    own = {
        "glue/cola": "matthews",
        "glue/mrpc": "f1",
        "glue/stsb": "spearman",
        "super_glue/multirc": "f1a",
    }
    assert official(name, folder).metrics[0] == own.get(name, "accuracy")
    assert official(name, folder).metrics == PRESETS[name].metrics


def test_every_wsc_pronoun_is_marked_once(folder: Path):
    task = official("wsc", folder)
    for split in task.splits.values():
        assert all(text.count("*") == 2 for text in split.texts)


def test_the_task_folder_itself_will_do(folder: Path):
    assert load_task("SST-2", data_dir=folder / "SST-2", splits=False).fingerprint != ""
    assert load_task("cola", data_dir=folder / "CoLA").fingerprint == official("glue/cola", folder).fingerprint


def test_another_task_s_folder_is_told_by_its_columns(folder: Path):
    from frostline.errors import DataError

    with pytest.raises(DataError, match=r"no column 'sentence1' or '#1 String'; this is not the format of glue/mrpc"):
        load_task("mrpc", data_dir=folder / "SST-2")
