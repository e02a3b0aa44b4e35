"""The device to compute on, and the number of CPU threads."""

from __future__ import annotations

import torch

from frostline.errors import OptionError


def use_device(name: str, *, threads: int | None = None) -> torch.device:
    """Return the device of that name if it is available; set the number of CPU threads if one is given."""
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise ValueError("computes nothing")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError):
        kinds = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        available = ", ".join(kind for kind, is_available in kinds.items() if is_available)
        raise OptionError(f"device {name!r} is not available here; available: {available}") from None
    return device
