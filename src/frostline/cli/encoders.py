"""`frostline encoders`: the supported architectures."""

from __future__ import annotations

from frostline.cli._shared import options, screen


def command(as_json: options.Json = False) -> None:
    """List the supported encoder families, with examples."""
    with screen.starting():
        from frostline.encoders.families import FAMILIES
    rows = [
        {
            "model_type": name,
            "family": family.title,
            "unpadded": family.can_pack,
            "multiple_choice": family.has_multiple_choice,
            "examples": family.examples,
            "note": family.note,
        }
        for name, family in FAMILIES.items()
    ]
    headings = {"family": "family", "model_type": "model_type", "examples": "for example"}
    screen.list_records("encoders", rows, headings, as_json=as_json)
    if not as_json:
        screen.say(
            "",
            *(f"{row['family']}: {row['note']}" for row in rows if row["note"]),
            "\nAny folder or hub id of these families works: frostline measure DATA --model FOLDER_OR_ID",
            "Without --model, the embedded all-MiniLM-L6-v2 is used; it needs no download from the hub.",
        )
