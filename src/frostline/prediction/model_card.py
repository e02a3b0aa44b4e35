"""The model card: layers, recipe, data, metrics, and how to use the model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from frostline.files import provenance
from frostline.plans.methods import METHODS
from frostline.training.result import Tuned

_PURPOSES = {
    "classification": "classifies texts",
    "regression": "predicts a number for texts",
    "multiple choice": "chooses between candidate answers",
}


def write_card(tuned: Tuned, *, is_stock: bool) -> str:
    """Return the README.md of a saved model.

    Args:
        tuned: the result of tuning.
        is_stock: whether transformers alone can load it.
    """
    parameters, command = tuned.trained.audit, provenance.command()
    rows = [
        ("plan", f"{tuned.plan.name}: {tuned.plan.in_words(tuned.base.layers)}"),
        ("chosen because", tuned.plan.because),
        ("method", f"{tuned.plan.method}: {METHODS[tuned.plan.method].summary}"),
        ("parameters", f"{parameters.total:,}, of which {parameters.trainable:,} were trained"),
        ("encoder", f"{tuned.base.name} ({tuned.base.revision})"),
        ("data", f"{tuned.task.name} (SHA-256 {tuned.task.fingerprint})"),
        ("labels", ", ".join(tuned.task.label_names)),
        ("head", "reads the mean of all tokens, which one added layer computes" if averages(tuned) else ""),
        ("training", tuned.recipe.in_words()),
        ("seed", str(tuned.recipe.seed)),
        ("command", f"`{shlex.join(command)}`" if command else "from Python"),
    ]
    return "\n".join(
        [
            *_front_matter(tuned, is_stock=is_stock),
            f"# {Path(tuned.base.name).name} tuned on {tuned.task.name}",
            "",
            f"This model {_PURPOSES[tuned.task.kind]}. It was tuned with Frostline, which trains, freezes and drops "
            "chosen layers of a pretrained encoder.",
            "",
            "## Usage",
            "",
            *_usage(tuned, is_stock=is_stock),
            "",
            "## Metrics",
            "",
            *_metrics_table(tuned.metrics),
            "",
            "## Tuning",
            "",
            "| | |",
            "|---|---|",
            *(f"| {name} | {_cell(value)} |" for name, value in rows if value),
            "",
            *(f"- {note}" for note in tuned.notes),
            "",
        ]
    )


def averages(tuned: Tuned) -> bool:
    """Whether the head reads the mean of all tokens, through a layer that the encoder did not have."""
    return tuned.recipe.head == "average"


def how_to_load(tuned: Tuned, folder: Path, *, is_stock: bool) -> str:
    """Return the line of Python that loads a saved model."""
    where = json.dumps(str(folder))
    if not is_stock:
        return f"import frostline; frostline.predict({where}, [{_example(tuned)}])"
    if tuned.task.kind == "multiple choice":
        return (
            f"from transformers import AutoModelForMultipleChoice; AutoModelForMultipleChoice.from_pretrained({where})"
        )
    return (
        f'from transformers import pipeline; pipeline("text-classification", {where}, truncation=True)'
        f"({_example(tuned)})"
    )


def _front_matter(tuned: Tuned, *, is_stock: bool) -> list[str]:
    return [
        "---",
        *(["library_name: transformers"] if is_stock else []),
        *(["pipeline_tag: text-classification"] if tuned.task.kind != "multiple choice" else []),
        "tags:",
        "- frostline",
        "---",
        "",
    ]


def _usage(tuned: Tuned, *, is_stock: bool) -> list[str]:
    if not is_stock:
        return [
            "Only Frostline can run it, with the encoder that it was tuned from: transformers has no class for it.",
            "",
            "```python",
            "import frostline",
            "",
            f'frostline.predict("path/to/this/folder", [{_example(tuned)}])',
            "```",
        ]
    if tuned.task.kind == "multiple choice":
        return [
            "```python",
            "from transformers import AutoModelForMultipleChoice, AutoTokenizer",
            "",
            'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")',
            'model = AutoModelForMultipleChoice.from_pretrained("path/to/this/folder")',
            'question, choices = "The ice melted because", ["it was warm.", "it was cold."]',
            "questions = [question] * len(choices)",
            'inputs = tokenizer(questions, choices, truncation=True, padding=True, return_tensors="pt")',
            "model(**{name: value[None] for name, value in inputs.items()}).logits  # one number per choice",
            "```",
        ]
    return [
        "```python",
        "from transformers import pipeline",
        "",
        'classify = pipeline("text-classification", "path/to/this/folder", truncation=True)',
        f"classify({_example(tuned)})",
        "```",
        "",
        "`truncation=True` cuts texts at the same length as in training.",
    ]


def _example(tuned: Tuned) -> str:
    if tuned.task.kind == "multiple choice":
        return '("a question", ["a choice", "another"])'
    return '{"text": "a text", "text_pair": "its second text"}' if tuned.task.takes_pairs else '"a text"'


def _metrics_table(metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    names = list(dict.fromkeys(name for values in metrics.values() for name in values))
    if not names:
        return ["No metrics were computed."]
    return [
        f"| rows | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        *(f"| {split} | {' | '.join(f'{values[name]:.4f}' for name in names)} |" for split, values in metrics.items()),
    ]


def _cell(text: str) -> str:
    """Return text that is safe in a table: labels and file names may contain anything."""
    return " ".join(text.split()).replace("|", "\\|")
