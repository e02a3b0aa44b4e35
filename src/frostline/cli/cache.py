"""`frostline cache`: the frozen states that are kept on disk."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from frostline.cli._shared import options, screen


def command(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of them.")] = False,
    as_json: options.Json = False,
) -> None:
    """List the frozen states that are kept on disk, or remove them; they are built again when they are needed."""
    with screen.starting():
        from frostline.states.cache import cache_folder, cache_limit, clear_entries, list_entries
    limit = cache_limit()
    if clear:
        freed = clear_entries()
        if as_json:
            screen.print_json({"folder": str(cache_folder()), "freed": freed})
        else:
            screen.out().print(f"{screen.size_in_words(freed)} freed in {cache_folder()}", markup=False, soft_wrap=True)
        return
    entries = list_entries()
    total = sum(entry.size for entry in entries)
    if as_json:
        rows = [
            {**entry.about, "folder": str(entry.folder), "size": entry.size, "last_used": entry.last_used}
            for entry in entries
        ]
        screen.print_json({"folder": str(cache_folder()), "size": total, "limit": limit, "entries": rows})
        return
    console = screen.out()
    if entries:
        columns = ["encoder", "layer", "texts", "kept as", "size", "last used"]
        lines = [
            [
                str(entry.about.get("encoder")),
                str(entry.about.get("layer")),
                f"{entry.about.get('texts', 0):,}",
                str(entry.about.get("dtype")),
                screen.size_in_words(entry.size),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used)),
            ]
            for entry in entries
        ]
        console.print(screen.table(columns, lines, right=["layer", "texts", "size"]))
        console.print()
    console.print(
        f"{screen.size_in_words(total)} of {screen.size_in_words(limit)} in {cache_folder()}; "
        "FROSTLINE_CACHE and FROSTLINE_CACHE_LIMIT (in GB) change that",
        markup=False,
        soft_wrap=True,
    )
