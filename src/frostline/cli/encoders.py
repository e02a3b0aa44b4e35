"""`frostline encoders`: the architectures that are supported."""

from __future__ import annotations

from frostline.cli._shared import options, screen


def command(as_json: options.Json = False) -> None:
    """List the encoder families that are supported, with examples of each."""
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
    if as_json:
        screen.print_json({"encoders": rows})
        return
    console = screen.out()
    lines = [[str(row["family"]), str(row["model_type"]), str(row["examples"])] for row in rows]
    console.print(screen.table(["family", "model_type", "for example"], lines))
    console.print()
    for row in rows:
        if row["note"]:
            console.print(f"{row['family']}: {row['note']}", markup=False)
    console.print("\nAny folder or hub id of these families works: frostline measure DATA --model FOLDER_OR_ID")
    console.print("Without --model, the embedded all-MiniLM-L6-v2 is used; it needs no hub.")
