"""Every preset from the hub's format and from the official files, with invented rows: both give the same task."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
import pytest

from frostline.errors import DataError, FetchError
from frostline.tasks import METRICS, PRESETS, Task, find_preset, load_task
from frostline.tasks.presets.superglue import mark_pronoun

BENCHMARKS = [name for name, preset in PRESETS.items() if preset.takes_data_dir]
N = 24


@dataclass
class Sample:
    """Rows in the hub's form, their class names there, and how the official files write them."""

    hub: list[dict[str, Any]]
    names: list[str] | None
    file: str  # how the file is named, with {} for the split
    official: list[Any]  # lists are fields of a table, dictionaries JSON objects
    dev: str = "dev"
    hub_dev: str = "validation"
    folder: str = ""
    more_dev: tuple[str, ...] = ()
    more_hub_dev: tuple[str, ...] = ()


def rows(**columns: str) -> Iterator[tuple[int, int, dict[str, str]]]:
    for i in range(N):
        yield i, i % 2, {name: text.format(i) for name, text in columns.items()}


def tsv(header: list[str] | None, body: list[list[Any]]) -> list[Any]:
    return [*([header] if header else []), *body]


def pair_sample(
    a: str, b: str, names: list[str], *, folder: str, labels: list[Any] | None = None, label: str = "label"
) -> Sample:
    found = list(rows(**{a: 'The "first text {}', b: "second, text {}"}))
    return Sample(
        hub=[{**t, "label": y, "idx": i} for i, y, t in found],
        names=names,
        file="{}.tsv",
        official=tsv(["index", a, b, label], [[i, t[a], t[b], labels[y] if labels else y] for i, y, t in found]),
        folder=folder,
    )


def samples() -> dict[str, Sample]:
    made: dict[str, Sample] = {}
    single = list(rows(sentence='it said " and went on {} '))
    made["glue/cola"] = Sample(
        hub=[{**t, "label": y, "idx": i} for i, y, t in single],
        names=["unacceptable", "acceptable"],
        file="{}.tsv",
        official=[["src", y, "" if y else "*", t["sentence"]] for _, y, t in single],
        folder="CoLA",
    )
    made["glue/sst2"] = Sample(
        hub=[{**t, "label": y, "idx": i} for i, y, t in single],
        names=["negative", "positive"],
        file="{}.tsv",
        official=tsv(["sentence", "label"], [[t["sentence"], y] for _, y, t in single]),
        folder="SST-2",
    )
    two = list(rows(sentence1='one " {}', sentence2="two {}"))
    made["glue/mrpc"] = Sample(
        hub=[{**t, "label": y, "idx": i} for i, y, t in two],
        names=["not_equivalent", "equivalent"],
        file="{}.tsv",
        official=tsv(
            ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
            [[y, 100 + i, 200 + i, t["sentence1"], t["sentence2"]] for i, y, t in two],
        ),
        folder="MRPC",
    )
    scores = [round(i * 0.2, 1) for i in range(N)]
    made["glue/stsb"] = Sample(
        hub=[{**t, "label": scores[i], "idx": i} for i, _, t in two],
        names=None,
        file="{}.tsv",
        official=tsv(
            [
                "index",
                "genre",
                "filename",
                "year",
                "old_index",
                "source1",
                "source2",
                "sentence1",
                "sentence2",
                "score",
            ],
            [[i, "g", "f", "y", i, "s", "s", t["sentence1"], t["sentence2"], f"{scores[i]:.3f}"] for i, _, t in two],
        ),
        folder="STS-B",
    )
    asked = list(rows(question1='why {}? "', question2="how {}?"))
    made["glue/qqp"] = Sample(
        hub=[{**t, "label": y, "idx": i} for i, y, t in asked],
        names=["not_duplicate", "duplicate"],
        file="{}.tsv",
        official=tsv(
            ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
            [[i, i, i, t["question1"], t["question2"], y] for i, y, t in asked],
        ),
        folder="QQP",
    )
    nli = list(rows(premise="It rained {}.", hypothesis="It was wet {}."))
    names = ["entailment", "neutral", "contradiction"]
    made["glue/mnli"] = Sample(
        hub=[{**t, "label": i % 3, "idx": i} for i, _, t in nli],
        names=names,
        file="{}.tsv",
        official=tsv(
            ["index", "promptID", "pairID", "genre", "sentence1", "sentence2", "label1", "gold_label"],
            [[i, i, i, "g", t["premise"], t["hypothesis"], names[i % 3], names[i % 3]] for i, _, t in nli],
        ),
        dev="dev_matched",
        hub_dev="validation_matched",
        folder="MNLI",
    )
    file, split = "dev_mismatched", "validation_mismatched"
    made["glue/mnli_mismatched"] = replace(made["glue/mnli"], dev=file, hub_dev=split)
    made["glue/mnli_both"] = replace(made["glue/mnli"], more_dev=(file,), more_hub_dev=(split,))
    entail = ["entailment", "not_entailment"]
    made["glue/qnli"] = pair_sample("question", "sentence", entail, folder="QNLI", labels=entail)
    made["glue/rte"] = pair_sample("sentence1", "sentence2", entail, folder="RTE", labels=entail)
    made["glue/wnli"] = pair_sample("sentence1", "sentence2", entail[::-1], folder="WNLI")

    booleans = ["False", "True"]
    boolq = list(rows(question="is it {}", passage="It is {}, they say."))
    made["super_glue/boolq"] = Sample(
        hub=[{**t, "label": y, "idx": i} for i, y, t in boolq],
        names=booleans,
        file="{}.jsonl",
        official=[{**t, "label": bool(y), "idx": i} for i, y, t in boolq],
        folder="BoolQ",
    )
    cb = ["entailment", "contradiction", "neutral"]
    made["super_glue/cb"] = Sample(
        hub=[{**t, "label": i % 3, "idx": i} for i, _, t in nli],
        names=cb,
        file="{}.jsonl",
        official=[{**t, "label": cb[i % 3], "idx": i} for i, _, t in nli],
        folder="CB",
    )
    made["super_glue/rte"] = Sample(
        hub=[{**t, "label": y, "idx": i} for i, y, t in nli],
        names=entail,
        file="{}.jsonl",
        official=[{**t, "label": entail[y], "idx": i} for i, y, t in nli],
        folder="RTE",
    )
    copa = [
        {**t, "question": ("cause", "effect")[i // 2 % 2], "label": y, "idx": i}
        for i, y, t in rows(premise="The cup fell {}.", choice1="It broke {}.", choice2="It flew {}.")
    ]
    made["super_glue/copa"] = Sample(
        hub=copa, names=["choice1", "choice2"], file="{}.jsonl", official=copa, folder="COPA"
    )
    answers = [
        {
            "paragraph": f"Paragraph {i // 4}.",
            "question": f"Who {i // 2}?",
            "answer": f"Ann {i}" if i else "",
            "label": i % 2,
        }
        for i in range(N)
    ]
    made["super_glue/multirc"] = Sample(
        hub=[{**a, "idx": {"paragraph": i // 4, "question": i // 2, "answer": i}} for i, a in enumerate(answers)],
        names=booleans,
        file="{}.jsonl",
        official=[
            {
                "idx": p,
                "version": 1.1,
                "passage": {
                    "text": f"Paragraph {p}.",
                    "questions": [
                        {
                            "question": f"Who {q}?",
                            "answers": [{"text": answers[a]["answer"], "label": a % 2} for a in (2 * q, 2 * q + 1)],
                        }
                        for q in (2 * p, 2 * p + 1)
                    ],
                },
            }
            for p in range(N // 4)
        ],
        folder="MultiRC",
    )
    wic = [
        {**t, "word": "bank", "start1": 0, "end1": 4, "start2": 0, "end2": 4, "label": y, "idx": i}
        for i, y, t in rows(sentence1="The bank lent {}.", sentence2="By the bank {}.")
    ]
    made["super_glue/wic"] = Sample(
        hub=wic, names=booleans, file="{}.jsonl", official=[{**r, "label": bool(r["label"])} for r in wic], folder="WiC"
    )
    spans = {"span1_text": "Ann", "span1_index": 0, "span2_text": "she", "span2_index": 3}
    made["super_glue/wsc"] = Sample(
        hub=[
            {"text": f"Ann slept because she, number {i}, was tired.", **spans, "label": i % 2, "idx": i}
            for i in range(N)
        ],
        names=booleans,
        file="{}.jsonl",
        official=[
            {"text": f"Ann slept because she, number {i}, was tired.", "target": spans, "label": bool(i % 2), "idx": i}
            for i in range(N)
        ],
        folder="WSC",
    )
    reviews = list(rows(text='Good, "really" good {}.\\nCome again.'))
    made["yelp_polarity"] = Sample(
        hub=[{**t, "label": y} for _, y, t in reviews],
        names=["1", "2"],
        file="{}.csv",
        official=[[str(y + 1), t["text"]] for _, y, t in reviews],
        dev="test",
        hub_dev="test",
        folder="yelp_review_polarity_csv",
    )
    swag = [{"ctx": f"A man {i}", "endings": [f"{e} {i}" for e in "abcd"], "label": i % 4} for i in range(N)]
    made["hellaswag"] = Sample(
        hub=[{**r, "label": str(r["label"])} for r in swag],
        names=None,
        file="hellaswag_{}.jsonl",
        official=swag,
        dev="val",
        folder="hellaswag",
    )
    cosmos = [
        {
            "context": f"Story {i}.",
            "question": "Why?",
            **{f"answer{a}": f"for {a} {i}" for a in range(4)},
            "label": i % 4,
        }
        for i in range(N)
    ]
    made["cosmosqa"] = Sample(
        hub=cosmos,
        names=None,
        file="{}.csv",
        official=tsv(["id", *cosmos[0]], [[f"id{i}", *r.values()] for i, r in enumerate(cosmos)]),
        dev="valid",
        folder="cosmosqa",
    )
    return made


SAMPLES = samples()


def write_official(sample: Sample, folder: Path) -> Path:
    home = folder / sample.folder
    home.mkdir()
    for split in ("train", sample.dev, *sample.more_dev):
        path = home / sample.file.format(split)
        with path.open("w", encoding="utf-8", newline="") as out:
            for row in sample.official:
                if isinstance(row, dict):
                    out.write(json.dumps(row) + "\n")
                elif path.suffix == ".csv":
                    csv.writer(out, quoting=csv.QUOTE_ALL).writerow(row)
                else:
                    out.write("\t".join(map(str, row)) + "\n")
    return home


def hub_format(sample: Sample, *, single_precision: bool = False) -> datasets.DatasetDict:
    part = datasets.Dataset.from_list(sample.hub)
    if sample.names:
        part = part.cast_column("label", datasets.ClassLabel(names=sample.names))
    elif single_precision:
        part = part.cast_column("label", datasets.Value("float32"))
    secret = part.map(lambda row: {"label": -1}) if sample.names else part
    return datasets.DatasetDict(
        {"train": part, **dict.fromkeys((sample.hub_dev, *sample.more_hub_dev), part)}
        | ({} if sample.hub_dev == "test" else {"test": secret})
    )


def same(one: Task, other: Task) -> bool:
    return (
        one.fingerprint == other.fingerprint and one.label_names == other.label_names and one.metrics == other.metrics
    )


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_hub_s_format_and_the_official_files_give_the_same_task(name: str, tmp_path: Path):
    sample = SAMPLES[name]
    write_official(sample, tmp_path)
    from_files = load_task(name, data_dir=tmp_path)
    from_hub = load_task(name, data_dir=hub_format(sample, single_precision=name == "glue/stsb"))
    assert same(from_files, from_hub)
    assert from_files.preset == from_hub.preset == name
    assert from_files.label_names == PRESETS[name].label_names
    assert len(from_files.test or ()) == N


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_preset_reads_parquet_shards_and_saved_datasets_too(name: str, tmp_path: Path):
    found = hub_format(SAMPLES[name])
    shards, saved = tmp_path / "shards", tmp_path / "saved"
    shards.mkdir()
    for split in ("train", SAMPLES[name].hub_dev, *SAMPLES[name].more_hub_dev):
        for shard in range(2):
            found[split].shard(2, shard, contiguous=True).to_parquet(shards / f"{split}-0000{shard}-of-00002.parquet")
    found.save_to_disk(saved)
    expected = load_task(name, data_dir=found)
    assert same(load_task(name, data_dir=shards), expected)
    assert same(load_task(name, data_dir=saved), expected)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_preset_comes_from_the_hub_under_its_own_id(name: str, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[Any, ...]] = []

    def fake(*given: Any, **options: Any) -> datasets.DatasetDict:
        asked.append((*given, options))
        return hub_format(SAMPLES[name])

    monkeypatch.setattr(datasets, "load_dataset", fake)
    task = load_task(name, revision="v1")
    assert "/" in asked[0][0]
    assert asked[0][2] == {"revision": "v1"}
    assert task.source.endswith("@v1")
    assert same(task, load_task(name, data_dir=hub_format(SAMPLES[name])))


@pytest.mark.parametrize("name", PRESETS.names())
def test_every_preset_is_complete(name: str):
    preset = PRESETS[name]
    assert preset.summary.endswith(("?", ")"))
    assert len(preset.summary) < 90
    for metric in preset.metrics:
        assert preset.kind in METRICS[metric].kinds
    assert (preset.kind == "regression") == (not preset.label_names)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("SST-2", "glue/sst2"),
        ("sst2", "glue/sst2"),
        ("GLUE/SST_2", "glue/sst2"),
        ("rte", "glue/rte"),
        ("superglue/rte", "super_glue/rte"),
        ("super_glue/cb", "super_glue/cb"),
        ("SuperGLUE/CB", "super_glue/cb"),
        ("STS-B", "glue/stsb"),
        ("BoolQ", "super_glue/boolq"),
        ("wsc.fixed", "super_glue/wsc"),
        ("cosmos_qa", "cosmosqa"),
        ("Movies", "movies"),
        ("MNLI-mm", "glue/mnli_mismatched"),
        ("mnli_both", "glue/mnli_both"),
    ],
)
def test_names_are_forgiving(given: str, name: str):
    found = find_preset(given)
    assert found is not None
    assert found.name == name


def test_no_name_means_two_presets():
    import re

    names = [n for _, p in PRESETS.items() for n in {re.sub(r"[-_.]", "", x.lower()) for x in (p.name, *p.aliases)}]
    assert len(names) == len(set(names))


def test_a_strange_name_is_no_preset():
    assert find_preset("glue/sst") is None
    assert find_preset("") is None


def mnli_files(folder: Path) -> Path:
    """MNLI's official files, with other rows in the mismatched dev set; one of them without an agreed label."""
    home, names = folder / "MNLI", ("entailment", "neutral", "contradiction")
    home.mkdir()
    for split, word, count in (("train", "old", 60), ("dev_matched", "near", 12), ("dev_mismatched", "far", 9)):
        rows = [{"sentence1": f"A {word} premise {i}.", "sentence2": "So be it.", "gold_label": names[i % 3]}
                for i in range(count)]  # fmt: skip
        odd = [{"sentence1": "Nobody agreed.", "sentence2": "Really.", "gold_label": "-"}]
        lines = [json.dumps(row) for row in (*rows, *(odd if split == "dev_mismatched" else []))]
        (home / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.mark.parametrize("protocol", ["held-out", "paper"])
def test_mnli_can_have_both_dev_sets(protocol, tmp_path: Path):
    folder = mnli_files(tmp_path)
    both, matched, mismatched = (
        load_task(name, data_dir=folder, protocol=protocol) for name in ("mnli_both", "mnli", "mnli_mismatched")
    )
    assert both.train == matched.train == mismatched.train
    assert both.validation == matched.validation
    assert (both.test, both.more_tests) == (matched.test, {"mismatched": mismatched.test})
    assert both.tests == ("test", "mismatched")
    assert (len(both.test or ()), len(both.more_tests["mismatched"])) == (12, 9)
    assert "mismatched: 1 row without an agreed label ('-') left out" in both.notes
    assert len({task.fingerprint for task in (both, matched, mismatched)}) == 3


def test_mnli_with_both_dev_sets_needs_both_files(tmp_path: Path):
    (mnli_files(tmp_path) / "MNLI" / "dev_mismatched.jsonl").unlink()
    with pytest.raises(DataError, match=r"no dev_mismatched file for glue/mnli_both; expected dev_mismatched.tsv"):
        load_task("mnli_both", data_dir=tmp_path)
    assert load_task("mnli", data_dir=tmp_path).tests == ("test",)


def test_mnli_rows_without_agreement_are_left_out_and_counted(tmp_path: Path):
    sample = SAMPLES["glue/mnli"]
    odd = [[99, 9, 9, "g", "Nobody agreed.", "Really.", "neutral", "-"]]
    sample = Sample(**{**vars(sample), "official": [*sample.official, *odd]})
    write_official(sample, tmp_path)
    task = load_task("mnli", data_dir=tmp_path)
    assert len(task.test or ()) == N
    assert "dev: 1 row without an agreed label ('-') left out" in task.notes


def test_damaged_qqp_rows_are_left_out_and_counted(tmp_path: Path):
    sample = SAMPLES["glue/qqp"]
    write_official(Sample(**{**vars(sample), "official": [*sample.official, [1, 2, 3, "cut short"]]}), tmp_path)
    task = load_task("qqp", data_dir=tmp_path)
    assert len(task.test or ()) == N
    assert "train: 1 damaged row left out (26)" in task.notes


def test_the_text_forms_are_the_usual_ones(tmp_path: Path):
    def first(name: str) -> tuple[str, Any]:
        split = load_task(name, data_dir=hub_format(SAMPLES[(find_preset(name) or PRESETS[name]).name])).test
        assert split is not None
        return split.texts[0], split.pairs[0] if split.pairs else (split.choices or [None])[0]

    assert first("copa") == ("The cup fell 0. What was the cause?", ("It broke 0.", "It flew 0."))
    assert first("multirc") == ("Paragraph 0.", "Who 0? ")
    assert first("wic") == ("The bank lent 0.", "bank: By the bank 0.")
    assert first("wsc") == ("Ann slept because *she*, number 0, was tired.", "Ann")
    assert first("boolq") == ("It is 0, they say.", "is it 0")
    assert first("cosmosqa") == ("Story 0. Why?", ("for 0 0", "for 1 0", "for 2 0", "for 3 0"))


@pytest.mark.parametrize(
    ("text", "pronoun", "position", "marked"),
    [
        ("Ann saw her today", "her", 2, "Ann saw *her* today"),
        ("He hid. He ran.", "he", 2, "He hid. *He* ran."),
        ('She said "him," twice', "him", 2, 'She said "*him*," twice'),
        ("it fell and it broke", "it", 4, "it fell and *it* broke"),
        ("give them  both to me", "them both", 1, "give *them both* to me"),
        ("this one is for him", "him", 1, "this one is for *him*"),
    ],
)
def test_a_pronoun_is_marked_where_it_stands_or_nearest_to_it(text: str, pronoun: str, position: int, marked: str):
    found = mark_pronoun(text, pronoun, position)
    assert found is not None
    assert found.replace("  ", " ") == marked


def test_a_pronoun_that_is_not_there_is_an_error_with_its_row():
    assert mark_pronoun("there is hithem only", "him", 1) is None
    sample = SAMPLES["super_glue/wsc"]
    broken = [*sample.hub[:3], {**sample.hub[3], "span2_text": "they"}, *sample.hub[4:]]
    with pytest.raises(DataError, match=r"super_glue/wsc\[train\]:4: column 'span2_text': 'they' does not occur"):
        load_task("wsc", data_dir=hub_format(Sample(**{**vars(sample), "hub": broken})))


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("glue/sst2", {"label": "2"}, ":5: column 'label': 2 is not one of negative, positive"),
        ("glue/sst2", {"sentence": " "}, ":5: column 'sentence': empty text"),
        (
            "super_glue/cb",
            {"label": "entailed"},
            "'entailed' is not one of entailment, contradiction, neutral (did you",
        ),
        ("super_glue/copa", {"question": "why"}, ":4: column 'question': 'why' is not one of cause, effect"),
        ("super_glue/multirc", {"passage": {"text": "x"}}, ":4: column 'passage': not the official nesting"),
        ("super_glue/wsc", {"target": {}}, ":4: column 'target': no 'span1_text' in it"),
        ("super_glue/boolq", {"label": None}, ":4: column 'label': no label"),
        ("hellaswag", {"endings": ["one"]}, ":4: column 'endings': needs two or more choices"),
    ],
)
def test_a_damaged_official_row_is_named(name: str, change: dict[str, Any], problem: str, tmp_path: Path):
    sample = SAMPLES[name]
    official = list(sample.official)
    if isinstance(official[0], dict):
        official[3] = {**official[3], **change}
    else:
        fields = dict(zip(official[0], official[4], strict=True)) | change
        official[4] = [fields[column] for column in official[0]]
    home = write_official(Sample(**{**vars(sample), "official": official}), tmp_path)
    with pytest.raises(DataError) as caught:
        load_task(name, data_dir=tmp_path)
    assert str(caught.value).startswith(str(home))
    assert problem in str(caught.value)


def test_a_hub_that_cannot_be_reached_is_one_line():
    with pytest.raises(FetchError) as caught:
        load_task("cb")
    assert str(caught.value) == (
        "aps/super_glue:cb: the hub cannot be reached and there is no copy in the cache; "
        "pass `data_dir=FOLDER` with the official files"
    )
    with pytest.raises(FetchError, match=r"someone/glue: the hub cannot .*; check the name and the network"):
        load_task("someone/glue")


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (ConnectionError("Broke off\nlong explanation"), FetchError, "cannot be downloaded from the hub (Broke off); "),
        (ValueError("Config name is missing.\nPick one"), DataError, "cannot be loaded (Config name is missing); "),
        (datasets.exceptions.DatasetNotFoundError("x"), FetchError, "no such dataset on the hub, or no access to it; "),
    ],
)
def test_what_the_hub_answers_is_one_line(
    raised: Exception, kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
):
    def fail(*given: Any, **options: Any) -> None:
        raise raised

    monkeypatch.setattr(datasets, "load_dataset", fail)
    monkeypatch.setattr("frostline.tasks.readers.hub._is_reachable", lambda name: True)
    with pytest.raises(kind) as caught:
        load_task("someone/moods")
    assert str(caught.value) == f"someone/moods: {said}check the name and the network"


def test_looking_into_the_cache_leaves_the_client_as_it_was(monkeypatch: pytest.MonkeyPatch):
    import huggingface_hub.constants

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("frostline.tasks.readers.hub._is_reachable", lambda name: False)
    with pytest.raises(FetchError, match="no copy in the cache"):
        load_task("someone/moods")
    assert (datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE) == (False, False)


def test_a_hub_dataset_is_read_with_its_configuration(monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []

    def fake(name: str, config: str | None, *, revision: str | None) -> datasets.DatasetDict:
        asked.append((name, config, revision))
        return hub_format(SAMPLES["glue/sst2"])

    monkeypatch.setattr(datasets, "load_dataset", fake)
    task = load_task("someone/moods:small")
    assert asked == [("someone/moods", "small", None)]
    assert (task.name, task.label_names) == ("someone/moods:small", ("negative", "positive"))
    assert "the test split has no labels and is left out" in task.notes


RATINGS = {
    "movies": [(str(i), (-1.5, 0.0, 2.0)[i % 3], f"a film {i}") for i in range(15_000)],
    "tweets": [(str(i), (-1.0, 1.0)[i % 2], f"a tweet {i // 2 if i < 100 else i}") for i in range(600)],
    "products": [(f"{i // 6}_{i % 6}", (-1.0, 1.0)[i * 7 % 2], f"a product {i}") for i in range(600)],
    "newspaper": [(f"{i // 6}_{i % 6}", (i % 9 - 4) / 2, f"an editorial {i}") for i in range(600)],
}


@pytest.fixture
def ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    import frostline.files.demo_assets

    monkeypatch.setattr(frostline.files.demo_assets, "ratings", RATINGS.__getitem__)


@pytest.mark.usefixtures("ratings")
def test_the_default_data_has_fixed_sizes_and_no_zeros():
    task = load_task("movies")
    assert [len(split) for split in task.splits.values()] == [7000, 1000, 2000]
    assert task.notes[0] == "5,000 rows rated exactly 0 left out"
    assert all(row % 3 != 2 for split in task.splits.values() for row in split.rows)
    assert task.label_names == ("negative", "positive")


@pytest.mark.usefixtures("ratings")
def test_smaller_sources_are_split_by_shares():
    assert [len(split) for split in load_task("tweets").splits.values()] == [432, 48, 120]


@pytest.mark.usefixtures("ratings")
def test_sentences_of_one_review_stay_together():
    task = load_task("products")
    reviews = [{(row - 1) // 6 for row in split.rows} for split in task.splits.values()]
    assert sum(map(len, reviews)) == 100
    assert [len(split) for split in task.splits.values()] == pytest.approx([432, 48, 120], abs=6)


@pytest.mark.usefixtures("ratings")
def test_ratings_are_a_regression_with_zeros():
    task = load_task("newspaper-rating")
    assert (task.kind, task.metrics, task.label_names) == ("regression", ("spearman", "pearson"), ())
    assert sum(len(split) for split in task.splits.values()) == 600


@pytest.mark.embedded
def test_the_real_default_has_the_rows_that_its_source_names():
    task = load_task("movies")
    labels = [label for split in task.splits.values() for label in split.labels]
    assert (labels.count(0), labels.count(1)) == (5326, 5242)
    assert task.notes[0] == "37 rows rated exactly 0 left out"
    for name, rows in (("tweets-rating", 4200), ("products-rating", 3708), ("newspaper-rating", 5190)):
        assert sum(len(split) for split in load_task(name).splits.values()) == rows
