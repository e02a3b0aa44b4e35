"""`frostline tasks`: the presets."""

from __future__ import annotations

from frostline.cli._shared import options, screen


def command(as_json: options.Json = False) -> None:
    """List the built-in tasks, with their kind and metrics."""
    from frostline.tasks import PRESETS

    rows = [
        {
            "name": name,
            "kind": preset.kind,
            "labels": list(preset.label_names),
            "metrics": list(preset.metrics),
            "tags": list(preset.tags),
            "summary": preset.summary,
        }
        for name, preset in PRESETS.items()
    ]
    headings = {"name": "task", "kind": "kind", "metrics": "metrics", "summary": "question"}
    screen.list_records("tasks", rows, headings, as_json=as_json)
    if not as_json:
        screen.say(
            "\nAlso accepted: a labelled file (CSV, TSV, JSON lines, Parquet; plain or .gz) or a hub dataset id.",
            "Official files on disk: frostline measure glue/sst2 --data-dir FOLDER",
        )
