"""What is saved: stock folders that give the same logits where Frostline is not installed, and what goes with them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from tests.tiny import ALL_CONFIGS, DEPTH, save_tiny, tiny_model, tiny_tokenizer

from frostline.api._tune import tune
from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import EMBEDDED_NAME, load_encoder
from frostline.encoders.surgery import reinitialise, truncate
from frostline.errors import EncoderError, OptionError, UserError
from frostline.plans.methods import METHODS
from frostline.prediction.export import save
from frostline.prediction.loading import OWN_FILE, OWN_WEIGHTS, Predictor, load_tuned
from frostline.records import Plan, Recipe
from frostline.tasks import Split, Task
from frostline.tasks.unlabelled import read_list
from frostline.training.stock_model import is_stock

TEXTS = ["ice and snow", "sun", "a long hot day of heat in July at noon", "hail"]
PIECES = [
    "ice",
    "snow",
    "sun",
    "heat",
    "hail",
    "##s",
    "##y",
    "and",
    "a",
    "long",
    "hot",
    "day",
    "of",
    "in",
    "at",
    "noon",
]

# Runs where importing frostline fails: nothing of it may be needed to use what it saved.
ELSEWHERE = """
import json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "frostline":
            raise ImportError("frostline is not installed here")

sys.meta_path.insert(0, Blocker())
try:
    import frostline
    sys.exit("frostline could be imported")
except ImportError:
    pass
import torch
from transformers import AutoModelForMultipleChoice, AutoModelForSequenceClassification, AutoTokenizer, pipeline
from transformers.utils import logging
logging.disable_progress_bar()
asked, found = json.load(sys.stdin), {}
for name, folder in asked["folders"].items():
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = asked["texts"]
    is_choice = name == "choice"
    seconds = ["yes it is", "no"] * 2 if is_choice else None
    inputs = tokenizer(texts, seconds, padding=True, truncation=True, return_tensors="pt")
    auto = AutoModelForMultipleChoice if is_choice else AutoModelForSequenceClassification
    model, report = auto.from_pretrained(folder, output_loading_info=True)
    if is_choice:
        inputs = {key: value.view(2, 2, -1) for key, value in inputs.items()}
    with torch.no_grad():
        logits = model.eval()(**inputs).logits
    said = None
    if not is_choice:
        # From the folder, as the card says, for some; putting the loaded parts together is faster for the others.
        parts = {"model": folder} if name in asked["whole"] else {"model": model, "tokenizer": tokenizer}
        ask = pipeline("text-classification", **parts, truncation=True)
        said = ask(texts + ["very long " * 60], top_k=None)
    config = model.config
    found[name] = {
        "logits": logits.tolist(),
        "said": said,
        "keys": [sorted(report[key]) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")],
        "layers": config.num_hidden_layers,
        "labels": config.id2label,
        "problem": config.problem_type,
        "class": type(model).__name__,
    }
print(json.dumps(found))
"""


def small_task(kind: str = "classification", *, pairs: bool = False) -> Task:
    texts = tuple(f"{TEXTS[row % 4]} {row}" for row in range(8))
    labels = tuple(row / 7 if kind == "regression" else row % 2 for row in range(8))
    rows = Split(
        texts=texts,
        pairs=texts[::-1] if pairs else None,
        choices=(("yes it is", "no"),) * 8 if kind == "multiple choice" else None,
        labels=labels,
        rows=tuple(range(1, 9)),
    )
    names = {"classification": ("cold", "warm"), "regression": (), "multiple choice": ("0", "1")}[kind]
    metrics = ("spearman",) if kind == "regression" else ("accuracy",)
    return Task(
        name="weather",
        kind=kind,  # type: ignore[arg-type]
        label_names=names,
        train=rows,
        validation=rows.take(range(4)),
        test=rows.take(range(4, 8)),
        metrics=metrics,
        source="memory",
    )


def word_pieces():
    """A small WordPiece tokenizer with the rules of BERT's."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters), *PIECES]
    vocabulary = {token: place for place, token in enumerate(dict.fromkeys(known))}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=48,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def tiny_tuned(name: str, plan: str | Plan, folder=None, *, task=None, tokenizer=None, **recipe):
    encoder = Encoder(tiny_model(name), tokenizer or word_pieces(), name=f"tiny {name}")
    made = Recipe(**{"epochs": 2, "batch": 8, "learning_rate": 1e-2, "warmup": 0.0, "select": "last", **recipe})
    return tune(encoder, task or small_task(), plan=plan, recipe=made, cache=False, output=folder)


def in_memory(tuned, rows=None):
    """What the model in memory says of the texts, without any cache."""
    model = Predictor(
        tunable=tuned.tunable,
        kind=tuned.task.kind,
        label_names=tuned.task.label_names,
        max_length=tuned.recipe.max_length or tuned.tunable.encoder.default_length,
        name="memory",
    )
    return model.outputs(rows or read_list(TEXTS))


LORA = Plan(layers=(1, 2, 4), head=DEPTH, method="lora", options={"targets": "all", "rank": 2})
NORMS = Plan(layers=(2,), head=DEPTH, method="norm-and-bias")
CASES = {
    **{name: (name, "1,2,2", {}) for name in ALL_CONFIGS},
    "at the top": ("bert", "4,4,4", {}),
    "head only": ("roberta", "layers=none,head=3", {}),
    "unrolled": ("albert", "layers=2+4", {}),
    "whole albert": ("albert", "full", {}),
    "lora": ("bert", LORA, {}),
    "lora on modernbert": ("modernbert", LORA, {}),
    "lora on an unrolled albert": ("albert", LORA, {}),
    "norms": ("electra", NORMS, {}),
    "short": ("bert", "2,2,2", {"max_length": 7}),
    "mean by configuration": ("modernbert mean pooling", "2,2,2", {"head": "mean"}),
    "regression": ("distilbert", "2,2,2", {"task": small_task("regression")}),
    "pairs": ("roberta", "2,2,2", {"task": small_task(pairs=True)}),
    "choice": ("bert", "1,2,2", {"task": small_task("multiple choice")}),
}
WHOLE = ["bert", "roberta", "modernbert", "regression", "lora"]
CHOICES = read_list([(TEXTS[0], ["yes it is", "no"])])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Every case, tuned and saved: what is in memory, and what a process without Frostline makes of the folder."""
    root = tmp_path_factory.mktemp("runs")
    made = {case: tiny_tuned(name, plan, root / case, **options) for case, (name, plan, options) in CASES.items()}
    asked = {"folders": {case: str(root / case / "model") for case in CASES}, "texts": TEXTS, "whole": WHOLE}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return root, made, json.loads(done.stdout)


@pytest.mark.parametrize("case", [case for case in CASES if case != "choice"])
def test_a_saved_model_gives_the_same_logits_where_frostline_is_not_installed(runs, case):
    _, made, found = runs
    torch.testing.assert_close(torch.tensor(found[case]["logits"]), in_memory(made[case]), atol=1e-5, rtol=1e-5)
    assert found[case]["keys"] == [[], [], []]


@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_loads_again_and_says_the_same(runs, case):
    root, made, _ = runs
    rows = CHOICES if case == "choice" else read_list(TEXTS)
    for folder in (root / case, root / case / "model"):
        again = load_tuned(folder)
        assert again.kind == made[case].task.kind
        assert again.label_names == made[case].task.label_names
        torch.testing.assert_close(again.outputs(rows), in_memory(made[case], rows), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("choice", "regression")])
def test_a_pipeline_names_the_labels_and_cuts_long_texts(runs, case):
    _, made, found = runs
    expected = in_memory(made[case]).softmax(-1)
    for row, said in enumerate(found[case]["said"][: len(TEXTS)]):
        assert {one["label"] for one in said} == {"cold", "warm"}
        for one in said:
            assert one["score"] == pytest.approx(float(expected[row, ["cold", "warm"].index(one["label"])]), abs=1e-5)
    cut = in_memory(made[case], read_list(["very long " * 60])).softmax(-1)[0]
    assert max(one["score"] for one in found[case]["said"][-1]) == pytest.approx(float(cut.max()), abs=1e-5)


def test_a_pipeline_gives_the_plain_number_of_a_regression(runs):
    _, made, found = runs
    numbers = [said[0]["score"] for said in found["regression"]["said"][: len(TEXTS)]]
    assert numbers == pytest.approx(in_memory(made["regression"])[:, 0].tolist(), abs=1e-5)
    assert found["regression"]["problem"] == "regression"


def test_multiple_choice_is_the_stock_class_with_a_number_per_choice(runs):
    _, made, found = runs
    assert found["choice"]["class"] == "BertForMultipleChoice"
    logits = in_memory(made["choice"], read_list([(TEXTS[0], ["yes it is", "no"]), (TEXTS[0], ["x", "no"])]))
    # The process asked texts 0 and 1 as the two choices of its first question; each choice is judged by itself.
    assert found["choice"]["logits"][0][0] == pytest.approx(float(logits[0, 0]), abs=1e-5)


@pytest.mark.parametrize("case", ALL_CONFIGS)
def test_nothing_above_the_head_is_saved(runs, case):
    root, _, found = runs
    assert found[case]["layers"] == 2
    with safe_open(root / case / "model" / "model.safetensors", framework="pt") as file:
        assert not [name for name in file.keys() if ".layer.2." in name or ".layers.2." in name]  # noqa: SIM118
    assert sorted(path.suffix for path in (root / case / "model").iterdir()) == [
        *(".json",) * 3, ".md", ".safetensors"
    ]  # fmt: skip


def test_albert_says_that_it_grew(runs):
    root, made, _ = runs
    own, shared = (
        sum(value.numel() for value in encoder.model.parameters())
        for encoder in (made["unrolled"].tunable.encoder, made["whole albert"].tunable.encoder)
    )
    line = f"{own:,} parameters instead of {shared:,}"
    assert own > shared
    assert [note for note in made["unrolled"].notes if line in note]
    assert line in (root / "unrolled" / "model" / "README.md").read_text()
    assert not [note for note in made["whole albert"].notes if "in place of" in note]


def test_a_run_folder_holds_what_the_formats_say(runs):
    root, made, _ = runs
    folder, tuned = root / "bert", made["bert"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "frostline.json", "metrics.jsonl", "model", "plan.json", "predictions.jsonl", "recipe.json", "result.json"
    ]  # fmt: skip
    assert json.loads((folder / "frostline.json").read_text())["kind"] == "tuned"
    assert Plan.from_json(json.loads((folder / "plan.json").read_text())) == tuned.plan
    assert Recipe.from_json(json.loads((folder / "recipe.json").read_text())) == tuned.recipe
    assert json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(tuned.to_json()))
    history = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert history == [dict(record) for record in tuned.trained.history]


def test_predictions_are_kept_row_by_row(runs):
    root, made, _ = runs
    lines = [json.loads(line) for line in (root / "bert" / "predictions.jsonl").read_text().splitlines()]
    assert [line["split"] for line in lines] == ["validation"] * 4 + ["test"] * 4
    assert [line["row"] for line in lines] == list(range(1, 9))
    assert lines[4]["text"] == made["bert"].task.test.texts[0]
    assert {line["label"] for line in lines} == {"cold", "warm"}
    right = sum(line["label"] == line["prediction"] for line in lines[4:])
    assert right / 4 == pytest.approx(made["bert"].metrics["test"]["accuracy"])
    assert sum(lines[0]["probabilities"].values()) == pytest.approx(1)


def test_predictions_of_pairs_choices_and_numbers_say_what_was_asked(runs):
    root, _, _ = runs
    first = {
        case: json.loads((root / case / "predictions.jsonl").read_text().splitlines()[0])
        for case in ("pairs", "choice", "regression")
    }
    assert first["pairs"]["text_pair"] == small_task(pairs=True).train.pairs[0]
    assert first["choice"]["choices"] == ["yes it is", "no"]
    assert first["choice"]["label"] == "0"
    assert first["regression"]["probabilities"] is None
    assert first["regression"]["label"] == 0


def test_the_card_says_what_a_reader_needs(runs):
    root, made, _ = runs
    card = (root / "bert" / "model" / "README.md").read_text()
    audit = made["bert"].trained.audit
    for part in (
        "layers 1 and 2 of 4 and the head were trained",
        "layers 3 and 4 were dropped",
        f"{audit.total:,}, of which {audit.trainable:,} were trained",
        made["bert"].task.fingerprint,
        f"| test | {made['bert'].metrics['test']['accuracy']:.4f} |",
        'pipeline("text-classification", "path/to/this/folder", truncation=True)',
        "| seed | 0 |",
        "from Python",
    ):
        assert part in card
    assert "AutoModelForMultipleChoice" in (root / "choice" / "model" / "README.md").read_text()
    assert '"text_pair"' in (root / "pairs" / "model" / "README.md").read_text()


def test_saving_leaves_the_model_in_memory_as_it_was(tmp_path):
    tuned = tiny_tuned("bert", LORA)
    before = in_memory(tuned)
    names = set(tuned.tunable.state_dict())
    save(tuned, tmp_path / "run")
    assert set(tuned.tunable.state_dict()) == names
    assert torch.equal(in_memory(tuned), before)


def test_a_second_result_replaces_the_first_as_a_whole(tmp_path):
    tiny_tuned("bert", "2,2,2", tmp_path / "run")
    (tmp_path / "run" / "model" / "left over").write_text("from before")
    save(tiny_tuned("roberta", "3,3,3"), tmp_path / "run")
    assert load_tuned(tmp_path / "run").tunable.encoder.family.name == "roberta"
    assert not (tmp_path / "run" / "model" / "left over").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_save_that_fails_leaves_the_earlier_result(tmp_path, monkeypatch):
    tiny_tuned("bert", "2,2,2", tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("frostline.prediction.export.write_card", fail)
    with pytest.raises(OSError, match="No space left"):
        save(tiny_tuned("roberta", "3,3,3"), tmp_path / "run")
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


# What only Frostline can run ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("base"))


def own_tuned(base, folder, plan=None, **recipe):
    made = Recipe(**{"epochs": 2, "batch": 8, "learning_rate": 1e-2, "warmup": 0.0, "select": "last", **recipe})
    return tune(base, small_task(), plan=plan or Plan.span(2, 3, 3), recipe=made, cache=False, output=folder)


OWN = {
    "mean head": (None, {"head": "mean"}),
    **{name: (Plan(layers=(2, 3), head=3, method=name), {}) for name, method in METHODS.items() if not method.is_stock},
    "lora and a mean head": (replace(LORA, options={"rank": 2}), {"head": "mean"}),
}


@pytest.mark.parametrize("case", OWN)
def test_what_only_frostline_can_run_is_loaded_on_its_base_again(base, tmp_path, case):
    plan, recipe = OWN[case]
    tuned = own_tuned(base, tmp_path / "run", plan, **recipe)
    assert not is_stock(tuned.tunable)
    assert [note for note in tuned.notes if "only Frostline can load" in note]
    assert {OWN_FILE, OWN_WEIGHTS} <= {path.name for path in (tmp_path / "run" / "model").iterdir()}
    again = load_tuned(tmp_path / "run")
    assert torch.equal(again.outputs(read_list(TEXTS)), in_memory(tuned))
    assert again.label_names == ("cold", "warm")


def test_another_base_is_refused_in_one_line(base, tmp_path):
    own_tuned(base, tmp_path / "run", head="mean")
    other = save_tiny(tmp_path / "other", seed=1)
    with pytest.raises(EncoderError, match="was tuned from another version of"):
        load_tuned(tmp_path / "run", encoder=other)


def test_a_base_that_is_gone_can_be_named(base, tmp_path):
    own_tuned(base, tmp_path / "run", head="mean")
    path = tmp_path / "run" / "model" / OWN_FILE
    about = json.loads(path.read_text())
    about["base"]["folder"] = str(tmp_path / "gone")
    path.write_text(json.dumps(about))
    with pytest.raises(UserError, match="gone is gone; give its new folder"):
        load_tuned(tmp_path / "run")
    assert load_tuned(tmp_path / "run", encoder=base).max_length == 64


def test_a_model_that_could_not_be_loaded_again_is_refused_before_training(tmp_path, log_lines):
    encoder = Encoder(tiny_model("bert"), tiny_tokenizer(), name="in memory")
    with pytest.raises(OptionError, match="is in memory only"):
        tune(encoder, small_task(), recipe=Recipe(head="mean"), output=tmp_path / "run")
    assert log_lines == []


def test_a_changed_encoder_is_refused_and_one_whose_revision_only_looks_so_is_not(base, tmp_path):
    loaded = load_encoder(base)
    given = {"head": "mean"}
    for number, changed in enumerate([truncate(loaded, 3), reinitialise(loaded, [2], seed=0)]):
        with pytest.raises(OptionError, match="has been changed: save it first"):
            own_tuned(changed, tmp_path / str(number), **given)
    named = Encoder(loaded.model, loaded.tokenizer, revision="build+7", folder=base)
    assert own_tuned(named, tmp_path / "run", **given).base.revision == "build+7"


def test_a_model_saved_before_origins_were_recorded_is_loaded(base, tmp_path):
    tuned = own_tuned(base, tmp_path / "run", head="mean")
    path = tmp_path / "run" / "model" / OWN_FILE
    about = json.loads(path.read_text())
    assert about["base"].pop("origin") == "folder"
    del about["base"]["is_changed"]
    assert about["base"].keys() == {"name", "revision", "folder", "layers"}
    path.write_text(json.dumps(about))
    assert torch.equal(load_tuned(tmp_path / "run").outputs(read_list(TEXTS)), in_memory(tuned))


@pytest.mark.parametrize(
    ("name", "revision", "asked"),
    [
        (EMBEDDED_NAME, "sha256:7f4b", ((), {})),
        ("someone/model", "0a1b2c", (("someone/model",), {"revision": "0a1b2c"})),
    ],
)
@pytest.mark.parametrize("says_origin", [True, False])
def test_the_base_is_looked_for_where_it_came_from(base, tmp_path, monkeypatch, name, revision, asked, says_origin):
    own_tuned(base, tmp_path / "run", head="mean")
    path = tmp_path / "run" / "model" / OWN_FILE
    about = json.loads(path.read_text())
    about["base"] |= {"name": name, "revision": revision, "origin": "demo" if name == EMBEDDED_NAME else "hub"}
    if not says_origin:  # as the first files were
        del about["base"]["origin"], about["base"]["is_changed"]
    path.write_text(json.dumps(about))
    found = load_encoder(base)
    found.revision = revision
    calls = []

    def load(*given, device, **options):
        calls.append((given, options))
        return found

    monkeypatch.setattr("frostline.prediction.loading.load_encoder", load)
    load_tuned(tmp_path / "run")
    assert calls == [asked]


def test_a_folder_that_is_called_like_the_demo_encoder_is_loaded_as_a_folder(base, tmp_path, monkeypatch):
    shutil.copytree(base, tmp_path / EMBEDDED_NAME)
    monkeypatch.chdir(tmp_path)
    tuned = own_tuned(EMBEDDED_NAME, tmp_path / "run", head="mean")
    assert torch.equal(load_tuned(tmp_path / "run").outputs(read_list(TEXTS)), in_memory(tuned))


# Folders from elsewhere -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "modernbert"])
def test_a_stock_classifier_that_someone_else_saved_loads(tmp_path, name):
    import transformers

    config = type(ALL_CONFIGS[name]).from_dict({**ALL_CONFIGS[name].to_dict(), "id2label": {0: "a", 1: "b", 2: "c"}})
    torch.manual_seed(0)
    stock = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    stock.save_pretrained(tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    found = load_tuned(tmp_path)
    assert (found.kind, found.label_names) == ("classification", ("a", "b", "c"))
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = stock(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    torch.testing.assert_close(found.outputs(read_list(TEXTS)), logits, atol=1e-5, rtol=1e-5)


def test_an_encoder_without_a_classifier_is_refused(base, tmp_path):
    with pytest.raises(EncoderError, match=r"is not a tuned classifier \(config.json names BertModel\); tune it first"):
        load_tuned(base)
    config = json.loads((base / "config.json").read_text())
    for path in base.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["BertForSequenceClassification"]}))
    with pytest.raises(EncoderError, match="the weights lack"):
        load_tuned(tmp_path)


def test_a_multi_label_classifier_is_refused(base, tmp_path):
    about = {"architectures": ["BertForSequenceClassification"], "problem_type": "multi_label_classification"}
    (tmp_path / "config.json").write_text(json.dumps({**json.loads((base / "config.json").read_text()), **about}))
    with pytest.raises(EncoderError, match="multi-label"):
        load_tuned(tmp_path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "missing", "no such folder"),
        (lambda folder: folder, "contains neither config.json nor"),
        (lambda folder: (folder / "checkpoints").mkdir() or folder, "continue it with `resume=True`"),
    ],
)
def test_a_folder_without_a_model_is_one_line(tmp_path, make, message):
    with pytest.raises(EncoderError, match=message):
        load_tuned(make(tmp_path))


def test_deberta_has_no_multiple_choice_and_says_so_before_training(tmp_path):
    with pytest.raises(EncoderError, match="no multiple-choice class"):
        tiny_tuned("deberta", "full", tmp_path / "run", task=small_task("multiple choice"))
    assert not (tmp_path / "run").exists()


def test_the_revision_of_a_loaded_base_is_recorded(base, tmp_path):
    tuned = own_tuned(base, tmp_path / "run")
    assert tuned.to_json()["encoder"] == {"name": str(base), "revision": load_encoder(base).revision, "layers": DEPTH}
