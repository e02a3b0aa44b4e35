"""Checksums of files and of the bits of arrays, by SHA-256, for which processors have instructions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor


def bits_of(values: Tensor | np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of a tensor or array, in order, without a copy if it is contiguous on the CPU."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    return np.ascontiguousarray(array).reshape(-1).data.cast("B")


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
