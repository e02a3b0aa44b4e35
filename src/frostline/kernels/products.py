"""Float32 matrix products at the speed of the machine.

torch hands matrix products to MKL, which on AMD processors uses the instructions of older ones; oneDNN, which torch
also contains, uses AVX-512 on all. torch gives it the products that may be rounded to bfloat16, and without AMX units
oneDNN does not round. So here it gets that permission, after a check that the products are those of float32: they were
2.2 times as fast on an AMD EPYC of the fifth generation, a training step 1.5 times.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

_CPU_INFO = Path("/proc/cpuinfo")
_TOLERANCE = 1e-5  # of a product, relative to the size of its terms; bfloat16's is above 1e-3


@contextlib.contextmanager
def fast_products() -> Iterator[None]:
    """Compute float32 products in oneDNN within the block, where that is faster and as exact.

    A precision that the user has set is not changed.
    """
    with _permission() if _is_undecided() and is_onednn_better() else contextlib.nullcontext():
        yield


@cache
def is_onednn_better() -> bool:
    """Whether torch gives products to MKL on an AMD processor with AVX-512, and oneDNN's have the error of float32."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):  # type: ignore[no-untyped-call]
        return False
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not _CPU_INFO.exists():
        return False
    with _CPU_INFO.open(encoding="utf-8", errors="replace") as lines:
        is_amd = any("AuthenticAMD" in line for line in lines if line.startswith("vendor_id"))
    if not is_amd:
        return False
    with _permission():
        return relative_error() < _TOLERANCE


def relative_error() -> float:
    """Return the largest error of a product of two matrices, with the setting as it is, relative to its terms."""
    size = 256
    numbers = torch.arange(size * size, dtype=torch.float64).reshape(size, size)
    left, right = (0.618 * numbers).sin().float(), (0.414 * numbers).cos().float()
    exact = left.double() @ right.double()
    worst = float(((left @ right) - exact).abs().max())
    return worst / math.sqrt(size)


def _setting() -> Any:
    """Return torch's settings of oneDNN's products; None before it had them."""
    return getattr(torch.backends.mkldnn, "matmul", None)


def _is_undecided() -> bool:
    """Whether torch has the setting, and the user has not changed it."""
    return getattr(_setting(), "fp32_precision", None) == "none"


@contextlib.contextmanager
def _permission() -> Iterator[None]:
    """Let products be rounded within the block, which makes torch give them to oneDNN."""
    setting = _setting()
    before = setting.fp32_precision
    setting.fp32_precision = "bf16"
    try:
        yield
    finally:
        setting.fp32_precision = before
