"""Other packages add scores, strategies, methods, families and studies by entry points, without touching `src/`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def hash_of(folder: Path) -> str:
    """One hash over the names and contents of all files but compiled ones."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came out of using the example package, which is installed for this alone."""
    before = hash_of(ROOT / "src")
    target, folder = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("used")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    example = str(ROOT / "tests" / "example_package")
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), example], check=True)
    path = os.pathsep.join([str(target), str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.using_the_example", str(folder)],
        env={**os.environ, "PYTHONPATH": path, "FROSTLINE_CACHE": str(folder / "cache")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert hash_of(ROOT / "src") == before
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("listing", "key", "name"),
    [
        ("scores", "name", "loudness"),
        ("strategies", "name", "loudest"),
        ("methods", "name", "queries"),
        ("encoders", "model_type", "frostbert"),
        ("studies", "name", "one-layer"),
    ],
)
def test_what_another_package_adds_is_listed_after_what_is_built_in(used, listing, key, name):
    (rows,) = used[listing].values()
    assert rows[-1][key] == name and len(rows) > 5


def test_a_score_is_measured(used):
    values = used["measured"]["scores"]["loudness"]["values"]
    assert len(values) == 3 and all(value > 0 for value in values)


def test_a_strategy_follows_its_packages_own_score(used):
    values = used["measured"]["scores"]["loudness"]["values"]
    best = max((1, 2), key=values.__getitem__)
    plan = used["by strategy"]["plan"]
    assert (plan["layers"], plan["head"], plan["because"]) == ([best], best, f"layer {best} is the loudest")


def test_a_strategy_and_a_method_take_part_in_a_race(used):
    origins = {source.split(":")[0] for proposal in used["planned"]["proposals"] for source in proposal["sources"]}
    assert {"loudest", "queries", "top-k"} <= origins


def test_a_method_trains_what_it_says(used):
    plan, width = used["by method"]["plan"], 32
    assert (plan["method"], plan["options"]) == ("queries", {"keys": True})
    pooler, classifier, query_and_key = width * width + width, 2 * width + 2, 2 * (width * width + width)
    assert used["by method"]["parameters"]["trainable"] == pooler + classifier + query_and_key


def test_an_encoder_of_the_packages_family_is_loaded_measured_and_tuned(used):
    assert used["family"]
    assert used["measured on family"]["encoder"]["family"] == "frostbert"
    assert set(used["measured on family"]["scores"]) == {"loudness", "variability"}
    assert used["tuned on family"]["plan"]["layers"] == [2]


def test_a_study_is_run(used):
    (table,) = (table for table in used["studied"]["tables"] if table["name"] == "layers")
    assert len(table["rows"]) == 2
