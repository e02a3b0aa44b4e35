"""`frostline tasks`: the presets, and what may stand in their place."""

from __future__ import annotations

from frostline.cli._shared import options, screen


def command(as_json: options.Json = False) -> None:
    """List the tasks known by name, with their kind and metrics."""
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
    if as_json:
        screen.print_json({"tasks": rows})
        return
    console = screen.out()
    lines = [[name, preset.kind, ", ".join(preset.metrics), preset.summary] for name, preset in PRESETS.items()]
    console.print(screen.table(["task", "kind", "metrics", "what is asked"], lines))
    console.print(
        "\nIn their place: a labelled file (CSV, TSV, JSON lines, Parquet; plain or .gz) or a hub dataset id."
    )
    console.print("Official files on disk: frostline measure glue/sst2 --data-dir FOLDER")
