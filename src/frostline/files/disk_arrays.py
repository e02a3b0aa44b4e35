"""Arrays in files. A full disk is an error when they are made; later it would kill the process without a message."""

from __future__ import annotations

import math
import os
import tempfile
from typing import IO, Any

import numpy as np


def array_in(file: IO[bytes], shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return an array in an open file, with all its disk space allocated at once."""
    size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    file.truncate(size)
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


def nameless_array(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return an array in a file without a name, which the system removes together with the array."""
    with tempfile.TemporaryFile() as file:
        return array_in(file, shape, dtype)
