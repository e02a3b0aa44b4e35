"""Layer numbers in words."""

from __future__ import annotations

from collections.abc import Sequence


def name_layers(layers: Sequence[int]) -> str:
    """Return the layers in words, such as 'layer 3' or 'layers 1, 2 and 4 to 6'."""
    return f"layer{'' if len(layers) == 1 else 's'} {format_ranges(layers)}"


def format_ranges(layers: Sequence[int], *, last: str = "and") -> str:
    """Return whole numbers, three neighbours or more as a range, such as '2 and 4 to 6'.

    Args:
        layers: layer numbers in ascending order, at least one.
        last: the final conjunction.
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and runs[-1][-1] == layer - 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    parts = [
        part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(layer) for layer in run])
    ]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"
