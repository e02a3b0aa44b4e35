"""Where to compute, and with how many threads."""

from __future__ import annotations

import torch

from frostline.errors import OptionError


def use_device(name: str, *, threads: int | None = None) -> torch.device:
    """The device of that name, checked to be there; sets the number of CPU threads if one is given."""
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise ValueError("computes nothing")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError):
        here = ["cpu"]
        if torch.cuda.is_available():
            here.append("cuda")
        if torch.backends.mps.is_available():
            here.append("mps")
        raise OptionError(f"device {name!r} is not available here; available: {', '.join(here)}") from None
    return device
