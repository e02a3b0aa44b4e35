"""`frostline cache` on the command line: what is kept, and removing it."""

from __future__ import annotations

from tests.cli.commands import as_json

from frostline.cli import invoke


def test_the_cache_is_listed_and_cleared(model, weather, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FROSTLINE_CACHE", str(tmp_path))
    assert as_json(capsys, "cache")["entries"] == []
    as_json(capsys, "tune", weather, "--model", model, "--plan", "4,4,4", "--epochs", "1")
    entries = as_json(capsys, "cache")["entries"]
    assert [entry["layer"] for entry in entries] == [3, 3, 3]
    assert invoke(["cache"]) == 0
    assert model in capsys.readouterr().out.replace("\n", "")
    assert as_json(capsys, "cache", "--clear")["freed"] == sum(entry["size"] for entry in entries)
    assert invoke(["cache", "--clear"]) == 0
    assert "freed" in capsys.readouterr().out
    assert as_json(capsys, "cache")["entries"] == []
