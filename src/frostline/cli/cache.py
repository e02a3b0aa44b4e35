"""`frostline cache`: the outputs of frozen layers that are kept on disk."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from frostline.cli._shared import options, screen


def command(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all cached outputs.")] = False,
    as_json: options.Json = False,
) -> None:
    """List the cached outputs of frozen layers, or delete them; they are computed again when needed."""
    with screen.starting():
        from frostline.states.cache import cache_folder, cache_limit, clear_entries, list_entries
    folder = str(cache_folder())
    if clear:
        freed = clear_entries()
        if as_json:
            screen.print_json({"folder": folder, "freed": freed})
        else:
            screen.say(f"{screen.size_in_words(freed)} freed in {folder}", wrap=False)
        return
    entries, limit = list_entries(), cache_limit()
    total = sum(entry.size for entry in entries)
    if as_json:
        rows = [
            {**entry.about, "folder": str(entry.folder), "size": entry.size, "last_used": entry.last_used}
            for entry in entries
        ]
        screen.print_json({"folder": folder, "size": total, "limit": limit, "entries": rows})
        return
    if entries:
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
        columns = ["encoder", "layer", "texts", "format", "size", "last used"]
        screen.out().print(screen.table(columns, lines, right=["layer", "texts", "size"]))
        screen.say("")
    used = f"{screen.size_in_words(total)} of {screen.size_in_words(limit)} used in {folder}"
    screen.say(f"{used}; set FROSTLINE_CACHE and FROSTLINE_CACHE_LIMIT (in GB) to change this", wrap=False)
