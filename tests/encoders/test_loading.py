"""Loading: real folders work, and what is wrong with a folder is one line that says what to do."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.tiny import CONFIGS, random_tokens, save_tiny, tiny_model, tiny_tokenizer

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import EMBEDDED_NAME, fingerprint, load_encoder
from frostline.errors import EncoderError, FetchError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of a good folder, to break."""
    return shutil.copytree(saved, tmp_path / "model")


def edit_config(folder, **changes):
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_family_loads_from_a_folder(name, tmp_path):
    encoder = load_encoder(save_tiny(tmp_path, name))
    assert encoder.family.name == name
    expected = tiny_model(name)
    for key, value in encoder.model.state_dict().items():
        assert torch.equal(value, expected.state_dict()[key])
    assert not encoder.model.training
    assert encoder.tokenize(["ice"], ["snow"]).lengths.tolist() == [10]


def test_the_fingerprint_of_a_folder_is_what_recorded_trials_say(tmp_path):
    """It is part of every trial's identity: worked out anew, a recorded trial would be run again."""
    contents = {"a.json": b"{}", "model.safetensors": bytes(range(256)) * 5000, "vocab.txt": b"ice"}
    for name, content in {**contents, "code.py": b"no part of it"}.items():
        (tmp_path / name).write_bytes(content)
    hashed = b"".join(f"{name}:{len(content)}\n".encode() + content for name, content in contents.items())
    assert fingerprint(tmp_path) == f"sha256:{hashlib.sha256(hashed).hexdigest()}"


def test_half_precision_weights_are_read_as_float32(folder):
    weights = load_file(folder / "model.safetensors")
    save_file({key: value.half() for key, value in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    edit_config(folder, dtype="float16")
    encoder = load_encoder(folder)
    assert {value.dtype for value in encoder.model.parameters()} == {torch.float32}


def test_a_fine_tuned_folder_loads_as_its_encoder(tmp_path):
    torch.manual_seed(0)
    tuned = transformers.AutoModelForSequenceClassification.from_config(CONFIGS["bert"])
    tuned.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path)
    assert encoder.has_pretrained_pooler
    for key, value in encoder.model.state_dict().items():
        assert torch.equal(value, tuned.bert.state_dict()[key])


def test_a_missing_pooler_is_remembered_and_not_an_error(folder):
    weights = load_file(folder / "model.safetensors")
    bare = {key: value for key, value in weights.items() if not key.startswith("pooler.")}
    save_file(bare, folder / "model.safetensors", {"format": "pt"})
    assert not load_encoder(folder).has_pretrained_pooler
    assert len(bare) == len(weights) - 2


def test_weights_in_several_files_load(saved, tmp_path):
    model = tiny_model("bert")
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    tiny_tokenizer().save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    encoder = load_encoder(tmp_path)
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in encoder.model.state_dict().items())


def test_the_revision_follows_the_contents(folder):
    before = load_encoder(folder).revision
    assert before == load_encoder(folder).revision
    weights = load_file(folder / "model.safetensors")
    weights["pooler.dense.bias"] += 1
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert before.startswith("sha256:")
    assert load_encoder(folder).revision != before


def test_the_origin_is_recorded_whatever_the_encoder_is_called(saved, tmp_path, monkeypatch):
    commit = tmp_path / "0a1b2c"  # the hub's cache names a snapshot's folder by its commit
    shutil.copytree(saved, commit)
    shutil.copytree(saved, tmp_path / EMBEDDED_NAME)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda model, **options: str(commit))
    monkeypatch.setattr("frostline.files.demo_assets.encoder_folder", lambda: saved)
    monkeypatch.chdir(tmp_path)
    origins = {model: load_encoder(model).origin for model in (None, "someone/model", EMBEDDED_NAME)}
    assert origins == {None: "demo", "someone/model": "hub", EMBEDDED_NAME: "folder"}
    assert Encoder(tiny_model("bert")).origin == "memory"


def test_loading_prints_nothing(saved, capfd):
    load_encoder(saved)
    assert capfd.readouterr() == ("", "")


def test_loading_draws_nothing_from_the_random_state(saved):
    before = torch.get_rng_state()
    load_encoder(saved)
    assert torch.equal(before, torch.get_rng_state())


def pickle_only(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def drop_layer(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {key: value for key, value in weights.items() if not key.startswith("encoder.layer.3.")}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def spoil_weight(folder):
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.1.output.dense.weight"][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def remove_tokenizer(folder):
    for path in folder.glob("*token*"):
        path.unlink()


BROKEN = {
    "no config": (lambda f: (f / "config.json").unlink(), "has no config.json"),
    "config is not JSON": (lambda f: (f / "config.json").write_text("{"), "config.json: not valid JSON"),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), "must contain a JSON object, not a list"),
    "config is binary": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"), "config.json: not valid JSON"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "contains no safetensors, and weights are read from"),
    "pickle only": (pickle_only, "contains only pytorch_model.bin, and weights are read from safetensors only"),
    "remote code": (
        lambda f: edit_config(f, auto_map={"AutoModel": "modeling_x.X"}),
        "asks to run its own code (auto_map in config.json), which Frostline never does",
    ),
    "unknown architecture": (
        lambda f: edit_config(f, model_type="gpt2"),
        "architecture 'gpt2' is not supported; supported model types: albert, bert,",
    ),
    "no architecture": (lambda f: edit_config(f, model_type=None), "architecture None is not supported"),
    "fewer layers than promised": (drop_layer, "the weights lack 16 tensors that config.json requires, such as"),
    "other width than promised": (lambda f: edit_config(f, hidden_size=16), "does not fit config.json"),
    "heads do not divide width": (lambda f: edit_config(f, num_attention_heads=5), "the model cannot be loaded"),
    "weights are cut short": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:1000]),
        "model.safetensors is damaged; download it again",
    ),
    "weights are not safetensors": (
        lambda f: (f / "model.safetensors").write_bytes(b"not weights at all"),
        "model.safetensors is damaged; download it again",
    ),
    "NaN in the weights": (spoil_weight, "encoder.layer.1.output.dense.weight contains NaN or infinite values"),
    "no tokenizer": (remove_tokenizer, "has no tokenizer"),
    "broken tokenizer": (lambda f: (f / "tokenizer.json").write_text("{}"), "the tokenizer cannot be loaded"),
    "architecture is a list": (lambda f: edit_config(f, model_type=["bert"]), "architecture ['bert'] is not supported"),
    "no layers": (lambda f: edit_config(f, num_hidden_layers=0), "num_hidden_layers is 0 in config.json"),
    "fewer than no layers": (lambda f: edit_config(f, num_hidden_layers=-1), "num_hidden_layers is -1 in config.json"),
    "attention from the hub": (
        lambda f: edit_config(f, _attn_implementation="someone/attention-kernel"),
        "_attn_implementation is 'someone/attention-kernel' in config.json; only eager and sdpa are supported",
    ),
    "a pointer in place of the weights": (
        lambda f: (f / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
        "is a Git LFS pointer",
    ),
    "an adapter beside the model": (
        lambda f: (f / "adapter_config.json").write_text("{}"),
        "is a PEFT adapter (adapter_config.json)",
    ),
    "decoder": (lambda f: edit_config(f, is_decoder=True), "configured as a decoder"),
}


@pytest.mark.parametrize("key", ["n_layers", "num_hidden_layers"])
def test_a_family_that_counts_its_layers_under_another_key_is_checked_there(key, tmp_path):
    folder = save_tiny(tmp_path, "distilbert")
    edit_config(folder, **{key: 0})
    with pytest.raises(EncoderError, match=f"{key} is 0 in config.json; at least 1 layer is needed"):
        load_encoder(folder)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_folder_is_one_line(kind, folder):
    break_it, message = BROKEN[kind]
    break_it(folder)
    with pytest.raises(EncoderError) as caught:
        load_encoder(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_no_code_of_a_folder_runs(folder):
    marker = folder / "it-ran"
    (folder / "modeling_x.py").write_text(f"open({str(marker)!r}, 'w')")
    edit_config(folder, auto_map={"AutoModel": "modeling_x.X", "AutoConfig": "modeling_x.X"})
    with pytest.raises(EncoderError):
        load_encoder(folder)
    edit_config(folder, auto_map=None)
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer["auto_map"] = {"AutoTokenizer": ["modeling_x.X", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    with pytest.raises(EncoderError, match="asks to run its own code"):
        load_encoder(folder)
    assert not marker.exists()


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere/at/all", "a/b/c", "~/no-such-model", ""])
def test_a_path_that_is_not_there_is_not_looked_up_on_the_hub(path):
    with pytest.raises(EncoderError, match="no such folder"):
        load_encoder(path)


def test_a_file_in_place_of_a_folder(folder):
    with pytest.raises(EncoderError, match="is a file; give the folder"):
        load_encoder(folder / "config.json")


def test_a_hub_id_without_a_hub_says_what_to_do():
    with pytest.raises(FetchError) as caught:
        load_encoder("someone/some-encoder")
    assert "model 'someone/some-encoder': no such folder, and it cannot be downloaded from the hub" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_impossible_hub_id():
    with pytest.raises(EncoderError, match="neither a folder nor a possible hub id"):
        load_encoder("what is this?!")


def test_a_length_beyond_the_models_limit_is_refused(saved):
    from frostline.errors import OptionError

    encoder = load_encoder(saved)
    assert encoder.max_length == 64
    with pytest.raises(OptionError, match=r"max length 65: .* takes at most 64 tokens"):
        encoder.tokenize(["ice"], max_length=65)


def test_tokens_fit_the_position_table_of_every_family():
    from frostline.encoders.families import FAMILIES

    for name, config in CONFIGS.items():
        limit = FAMILIES[name].max_length(config)
        if limit is None:
            continue
        model = tiny_model(name)
        encoder = Encoder(model)
        tokens = random_tokens((limit,))
        with torch.inference_mode():
            states = list(encoder.states(tokens, encoder.layout(tokens)))
        assert states[-1].isfinite().all()
        if name != "modernbert":  # rotary positions reach further than the table
            with pytest.raises(IndexError):
                encoder.embed(random_tokens((limit + 1,)), encoder.layout(random_tokens((limit + 1,))))


def test_a_roberta_without_padding_token_is_refused(tmp_path):
    save_tiny(tmp_path, "roberta")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "pad_token_id": None}))
    with pytest.raises(EncoderError, match="no pad_token_id"):
        load_encoder(tmp_path)


def test_a_tokenizer_of_another_model_is_told(folder):
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] = weights["embeddings.word_embeddings.weight"][:50].clone()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    edit_config(folder, vocab_size=50)
    with pytest.raises(EncoderError, match=r"returns token \d+, but the model's vocabulary has 50"):
        load_encoder(folder).tokenize(["zzz"])


def test_a_limit_that_is_not_a_number_is_passed_over(folder):
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "model_max_length": "many"}))
    assert load_encoder(folder).max_length == 64


def test_the_sentencepiece_model_is_part_of_the_revision(folder):
    before = load_encoder(folder).revision
    (folder / "spm.model").write_bytes(b"other pieces")
    assert load_encoder(folder).revision != before


def test_a_pickle_beside_the_weights_is_never_opened(folder):
    marker = folder / "it-ran"

    class Attack:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    import pickle

    for name in ("pytorch_model.bin", "training_args.bin"):
        (folder / name).write_bytes(pickle.dumps(Attack()))
    load_encoder(folder)
    assert not marker.exists()


def test_a_name_too_long_for_a_path_is_one_line():
    with pytest.raises((EncoderError, FetchError)) as caught:
        load_encoder("m" * 300)
    assert "\n" not in str(caught.value)
