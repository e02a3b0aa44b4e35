"""The public face: few names, all real, imported only when used."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import frostline


def test_every_public_name_can_be_had():
    for name in frostline.__all__:
        assert getattr(frostline, name) is not None
    assert dir(frostline) == sorted(frostline.__all__)


def test_the_public_names_are_these():
    assert frostline.__all__ == [
        "__version__",
        "Budget",
        "Compute",
        "Encoder",
        "FrostlineClassifier",
        "FrostlineError",
        "FrostlineRegressor",
        "LayerScores",
        "Plan",
        "Recipe",
        "StudyOptions",
        "Task",
        "UserError",
        "count_parameters",
        "evaluate",
        "load_encoder",
        "load_task",
        "measure",
        "plan",
        "predict",
        "run",
        "study",
        "tune",
        "write_report",
    ]


def test_no_public_name_is_also_a_module():
    """Importing frostline.NAME would put the module in the place of the function."""
    modules = {module.name for module in pkgutil.iter_modules(frostline.__path__)}
    assert not modules & set(frostline.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'tune_it'"):
        frostline.tune_it  # noqa: B018


@pytest.mark.parametrize("module", ["frostline", "frostline.cli", "frostline.tasks", "frostline.report.notebook"])
def test_importing_is_light(module):
    heavy = ("torch", "transformers", "datasets", "pandas", "pydantic", "altair")
    code = f"import {module}, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plan_is_drawn_in_a_notebook_before_any_verb_was_used_and_without_heavy_imports():
    code = """
import sys
import frostline

assert "layer 2" in frostline.Plan.span(2, 3, 3)._repr_html_()
print([name for name in ("torch", "transformers", "pandas", "pydantic", "altair", "numpy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_two_classes_have_the_same_name():
    found = Counter(
        node.name
        for path in Path(frostline.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in found.items() if count > 1] == []
