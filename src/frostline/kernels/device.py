"""The device to compute on, the number of CPU threads, and how they multiply."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from frostline.errors import OptionError
from frostline.kernels.products import fast_products


@contextlib.contextmanager
def computing(*, threads: int | None = None) -> Iterator[None]:
    """Compute with this number of CPU threads and with fast products within the block.

    Args:
        threads: number of CPU threads; None changes nothing.
    """
    before = torch.get_num_threads()
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        with fast_products():
            yield
    finally:
        torch.set_num_threads(before)


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
