"""Bench scripts take hours and are not run here, but what they import from Frostline must exist."""

import ast
import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.mark.parametrize("script", sorted(BENCH.glob("*.py")), ids=lambda path: path.stem)
def test_a_bench_imports_only_what_exists(script):
    imported = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "frostline"
        for alias in node.names
    ]

    missing = [f"{module}.{name}" for module, name in imported if not hasattr(importlib.import_module(module), name)]

    assert not missing
