"""Checksums of files and of the bits of arrays. SHA-256: today's processors have instructions for it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor


def bits_of(values: Tensor | np.ndarray[Any, Any]) -> memoryview:
    """The bytes of a tensor or array, in order, without a copy where it lies in one piece on the CPU."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    return np.ascontiguousarray(array).reshape(-1).data.cast("B")


def file_checksum(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
