"""The cache of frozen states: exact, shared, checked, bounded, and never in the way."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re

import numpy as np
import pytest
import torch
from tests.tiny import ALL_CONFIGS, CONFIGS, random_tokens, tiny_encoder

from frostline.encoders.surgery import truncate
from frostline.errors import OptionError
from frostline.kernels.batch_layout import Reads
from frostline.states import cache
from frostline.states.cache import open_together
from frostline.states.frozen import StatesAt

LAYER = 2


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path))
    monkeypatch.delenv("FROSTLINE_CACHE_LIMIT", raising=False)
    return tmp_path / "states"


def direct(encoder, tokens, rows, layer=LAYER):
    """The states of some texts, run one by one."""
    pieces = []
    with torch.no_grad():
        for row in rows:
            one = tokens.take([row])
            layout = encoder.layout(one)
            pieces.append(encoder.run(encoder.embed(one, layout), layout, 1, layer))
    return torch.cat(pieces)


def open_states(encoder, tokens, layer, *, reads=Reads.ALL, **options):
    """The states at one layer, and what is said about them."""
    (states,), notes = open_together(encoder, tokens, [StatesAt(layer=layer, reads=reads)], **options)
    return states, notes


def entries(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def refuse_to_run(*args, **kwargs):
    raise AssertionError("the encoder ran")


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_kept_states_are_those_of_the_encoder_in_any_order(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    states, notes = open_states(encoder, tokens, LAYER, dtype="float32")
    assert states.is_kept and not notes
    rows = [3, 0, 6]
    torch.testing.assert_close(states.rows(rows), direct(encoder, tokens, rows), atol=1e-5, rtol=0)


def test_half_precision_rounds_and_nothing_else():
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    whole, _ = open_states(encoder, tokens, LAYER, dtype="float32")
    half, _ = open_states(encoder, tokens, LAYER, dtype="float16")
    rows = list(range(len(tokens)))
    assert half.rows(rows).equal(whole.rows(rows).half().float())
    assert half.rows(rows).dtype == torch.float32


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_states_that_are_computed_when_asked_for_agree_with_kept_ones(dtype):
    encoder, tokens = tiny_encoder("roberta"), random_tokens()
    kept, _ = open_states(encoder, tokens, LAYER, dtype=dtype)
    computed, _ = open_states(encoder, tokens, LAYER, dtype=dtype, keep=False)
    assert kept.is_kept and not computed.is_kept
    step = 2e-3 if dtype == "float16" else 1e-5  # one unit in the last place of numbers up to 4
    torch.testing.assert_close(computed.rows([5, 1]), kept.rows([5, 1]), atol=step, rtol=0)


@pytest.mark.parametrize(("reads", "place"), [(Reads.FIRST, 0), (Reads.LAST, -1)])
@pytest.mark.parametrize("name", ["bert", "modernbert"])  # without padding, and with
def test_one_token_of_each_text_can_be_kept_alone(name, reads, place):
    encoder, tokens = tiny_encoder(name), random_tokens()
    states, _ = open_states(encoder, tokens, LAYER, dtype="float32", reads=reads)
    assert states.is_kept and states.rows([4, 2]).shape == (2, encoder.width)
    whole = [direct(encoder, tokens, [row])[place] for row in (4, 2)]
    torch.testing.assert_close(states.rows([4, 2]), torch.stack(whole), atol=1e-5, rtol=0)


def test_what_is_read_of_a_text_makes_another_entry(own_cache):
    encoder, tokens = tiny_encoder("bert"), random_tokens((1, 1))  # whose only token is the first and the last
    for reads in Reads:
        open_states(encoder, tokens, LAYER, reads=reads)
    assert len(entries(own_cache)) == 3


def test_a_second_run_reads_what_the_first_one_kept(monkeypatch, own_cache):
    tokens = random_tokens()
    first, _ = open_states(tiny_encoder("bert"), tokens, LAYER)
    again = tiny_encoder("bert")
    monkeypatch.setattr(type(again), "run", refuse_to_run)
    second, notes = open_states(again, tokens, LAYER)
    assert second.rows([1]).equal(first.rows([1])) and not notes
    assert len(entries(own_cache)) == 1


def test_an_encoder_that_was_cut_higher_up_shares_the_entry(own_cache):
    tokens = random_tokens()
    for name in CONFIGS:
        encoder = tiny_encoder(name)
        before = len(entries(own_cache)) if own_cache.exists() else 0
        open_states(encoder, tokens, LAYER)
        if not encoder.shares_layers:
            open_states(truncate(encoder, 3), tokens, LAYER)
        assert len(entries(own_cache)) == before + 1, name


@pytest.mark.parametrize("changed", ["embeddings", "layer below", "tokens", "types", "layer", "threads"])
def test_whatever_changes_the_states_makes_another_entry(changed, own_cache):
    encoder, tokens, layer = tiny_encoder("bert"), random_tokens(), LAYER
    open_states(encoder, tokens, layer)
    threads = torch.get_num_threads()
    try:
        with torch.no_grad():
            if changed == "embeddings":
                next(iter(encoder.parts().embeddings.values()))[0] += 1e-3
            elif changed == "layer below":
                next(iter(encoder.parts().layers[LAYER - 1].values()))[0] += 1e-3
        if changed == "tokens":
            tokens = random_tokens(seed=1)
        elif changed == "types":
            tokens.types[3] = 1
        elif changed == "layer":
            layer = LAYER + 1
        elif changed == "threads":
            torch.set_num_threads(threads + 1)
        open_states(encoder, tokens, layer)
    finally:
        torch.set_num_threads(threads)
    assert len(entries(own_cache)) == 2


# What entries that users have on disk were named without.
LEFT_OUT = {
    "num_hidden_layers", "n_layers", "num_hidden_groups", "layer_types", "architectures", "_name_or_path", "dtype",
    "id2label", "label2id", "problem_type", "transformers_version", "classifier_dropout", "classifier_pooling",
}  # fmt: skip


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_entries_from_before_families_named_their_keys_are_still_found(name):
    keys = set(ALL_CONFIGS[name].to_dict())
    assert keys - tiny_encoder(name).family.upper_keys == keys - LEFT_OUT


def test_weights_above_the_layer_do_not_matter(own_cache):
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    open_states(encoder, tokens, LAYER)
    with torch.no_grad():
        next(iter(encoder.parts().layers[LAYER].values()))[0] += 1
    open_states(encoder, tokens, LAYER)
    assert len(entries(own_cache)) == 1


def test_entries_have_the_names_and_files_that_they_always_had(own_cache):
    """Those of earlier versions are found and read; another name would leave gigabytes behind."""
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    states, _ = open_states(encoder, tokens, LAYER)
    (name,) = entries(own_cache)
    assert re.fullmatch("[0-9a-f]{32}-float16", name)
    content = (own_cache / name / "states.bin").read_bytes()
    assert sorted(path.name for path in (own_cache / name).iterdir()) == ["about.json", "states.bin"]
    about = {
        "format": 2, "encoder": encoder.name, "layer": LAYER, "texts": len(tokens), "tokens": int(tokens.lengths.sum()),
        "width": encoder.width, "dtype": "float16", "checksum": hashlib.sha256(content).hexdigest(),
    }  # fmt: skip
    assert json.loads((own_cache / name / "about.json").read_text()) == about
    assert states.size == len(content)


def damage(folder, how):
    states, about = folder / "states.bin", folder / "about.json"
    if how == "one bit":
        content = bytearray(states.read_bytes())
        content[100] ^= 1
        states.write_bytes(content)
    elif how == "cut short":
        states.write_bytes(states.read_bytes()[:-7])
    elif how == "no description":
        about.unlink()
    elif how == "no json":
        about.write_text("{")
    elif how == "old format":
        about.write_text(json.dumps({**json.loads(about.read_text()), "format": 0}))


@pytest.mark.parametrize("how", ["one bit", "cut short", "no description", "no json", "old format"])
def test_a_damaged_entry_is_found_out_and_built_again(how, own_cache):
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    first, _ = open_states(encoder, tokens, LAYER)
    before = first.rows([0, 3]).clone()
    damage(own_cache / entries(own_cache)[0], how)
    again, notes = open_states(encoder, tokens, LAYER)
    assert again.is_kept and again.rows([0, 3]).equal(before)
    assert len(notes) == 1 and "damaged" in notes[0]
    assert not open_states(encoder, tokens, LAYER)[1]


def test_states_that_half_precision_cannot_hold_are_kept_whole_and_it_is_said(own_cache):
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    norm = encoder.model.encoder.layer[LAYER - 1].output.LayerNorm
    with torch.no_grad():
        norm.bias[0] = 1e6
    states, notes = open_states(encoder, tokens, LAYER)
    assert states.dtype == "float32" and states.is_kept
    assert "float16 cannot hold" in notes[0]
    torch.testing.assert_close(states.rows([1]), direct(encoder, tokens, [1]), atol=1e-5, rtol=1e-6)
    again, _ = open_states(encoder, tokens, LAYER)
    assert again.dtype == "float32" and again.is_kept and len(entries(own_cache)) == 1
    computed, _ = open_states(encoder, tokens, LAYER, keep=False)
    torch.testing.assert_close(computed.rows([1]), states.rows([1]), atol=1e-5, rtol=1e-6)


def test_the_entry_that_was_not_used_for_longest_goes_first(own_cache, monkeypatch):
    encoder = tiny_encoder("bert")
    sizes = []
    for seed in range(3):
        states, _ = open_states(encoder, random_tokens(seed=seed), LAYER)
        sizes.append(states.size)
    old = {path: 1_000 + place for place, path in enumerate(sorted(own_cache.glob("*/about.json")))}
    for path, time in old.items():
        os.utime(path, (time, time))
    oldest = min(old, key=old.__getitem__).parent.name
    total = sum(path.stat().st_size for path in own_cache.rglob("*") if path.is_file())
    monkeypatch.setenv("FROSTLINE_CACHE_LIMIT", str((total + sizes[0] / 2) / 1e9))
    open_states(encoder, random_tokens(seed=9), LAYER)
    left = entries(own_cache)
    assert oldest not in left and len(left) == 3


def test_states_larger_than_the_limit_are_computed_when_asked_for(own_cache, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE_LIMIT", "0.000001")
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    states, notes = open_states(encoder, tokens, LAYER, dtype="float32")
    assert not states.is_kept and "recomputing" in notes[0]
    torch.testing.assert_close(states.rows([2]), direct(encoder, tokens, [2]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("limit", ["many", "-1", "nan"])
def test_a_limit_that_is_no_number_is_refused(limit, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE_LIMIT", limit)
    with pytest.raises(OptionError, match="must be a number of gigabytes"):
        open_states(tiny_encoder("bert"), random_tokens(), LAYER)


def test_a_full_disk_is_said_and_does_not_stop_the_run(own_cache, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    states, notes = open_states(encoder, tokens, LAYER, dtype="float32")
    assert not states.is_kept and "No space left on device" in notes[0]
    torch.testing.assert_close(states.rows([2]), direct(encoder, tokens, [2]), atol=1e-5, rtol=0)
    assert not list(own_cache.iterdir())


def test_little_free_disk_is_seen_before_anything_is_written(own_cache, monkeypatch):
    usage = cache.shutil.disk_usage(own_cache.parent)
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    states, notes = open_states(tiny_encoder("bert"), random_tokens(), LAYER)
    assert not states.is_kept and "recomputing" in notes[0]


@pytest.mark.parametrize("is_full", [False, True], ids=["room", "no room"])
def test_what_a_killed_run_left_half_built_is_never_used_and_goes_in_time(is_full, own_cache, monkeypatch):
    """Also where it takes the room that is wanted: it goes before the rest is counted."""
    own_cache.mkdir(parents=True)
    leftover = own_cache / ".building-x"
    leftover.mkdir()
    (leftover / "states.bin").write_bytes(b"half")
    os.utime(leftover, (1, 1))
    if is_full:
        usage = cache.shutil.disk_usage(own_cache)
        free = lambda path: usage._replace(free=1000 if leftover.exists() else usage.free)  # noqa: E731
        monkeypatch.setattr(cache.shutil, "disk_usage", free)
    states, _ = open_states(tiny_encoder("bert"), random_tokens(), LAYER)
    assert states.is_kept and not leftover.exists()


def test_entries_are_listed_and_cleared(own_cache):
    states, _ = open_states(tiny_encoder("bert"), random_tokens(), LAYER)
    (entry,) = cache.list_entries()
    assert entry.about["layer"] == LAYER and entry.about["texts"] == len(random_tokens())
    assert entry.size > states.size
    assert cache.clear_entries() == entry.size
    assert not cache.list_entries()


def test_damaged_entries_are_cleared_too(own_cache):
    open_states(tiny_encoder("bert"), random_tokens(), LAYER)
    damage(own_cache / entries(own_cache)[0], "no json")
    assert not cache.list_entries()
    assert cache.clear_entries() > 0
    assert not own_cache.exists()


def test_an_empty_cache_lists_nothing():
    assert cache.list_entries() == [] and cache.clear_entries() == 0


def test_rows_of_kept_states_have_the_lengths_of_their_texts():
    tokens = random_tokens()
    states, _ = open_states(tiny_encoder("bert"), tokens, LAYER)
    assert np.array_equal(states.lengths, tokens.lengths)
    assert states.rows([4, 1]).shape[0] == tokens.lengths[4] + tokens.lengths[1]
