"""Fast products have the error of float32, and leave torch's settings as they were."""

from pathlib import Path
from typing import Any

import pytest
import torch

from frostline.kernels import products
from frostline.kernels.device import computing

SETTING: Any = getattr(torch.backends.mkldnn, "matmul")  # noqa: B009 (torch has no type for it)


@pytest.fixture
def amd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A machine whose processor says that AMD made it, with AVX-512."""
    _machine(monkeypatch, tmp_path, "AuthenticAMD")


def _machine(monkeypatch, folder: Path, vendor: str) -> None:
    (folder / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n", encoding="utf-8")
    monkeypatch.setattr(products, "_CPU_INFO", folder / "cpuinfo")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    products.is_onednn_better.cache_clear()


@pytest.fixture(autouse=True)
def forget():
    """What a test says about the machine ends with it."""
    yield
    products.is_onednn_better.cache_clear()


def test_products_in_the_block_have_the_error_of_float32():
    with products.fast_products():
        assert products.relative_error() < 1e-5


def test_the_check_would_notice_products_that_are_rounded(amd, monkeypatch):
    exact = torch.Tensor.__matmul__

    def rounded(left, right):
        if left.dtype == torch.float32:
            return exact(left.bfloat16(), right.bfloat16()).float()
        return exact(left, right)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert products.relative_error() > 1e-4
    assert not products.is_onednn_better()


def test_other_makers_keep_their_library(monkeypatch, tmp_path):
    _machine(monkeypatch, tmp_path, "GenuineIntel")
    assert not products.is_onednn_better()
    with products.fast_products():
        assert SETTING.fp32_precision == "none"


def test_the_setting_is_that_of_before_after_an_error_too(amd):
    with pytest.raises(KeyError), products.fast_products():
        assert SETTING.fp32_precision == ("bf16" if products.is_onednn_better() else "none")
        raise KeyError
    assert SETTING.fp32_precision == "none"


def test_a_setting_of_the_user_is_kept(amd):
    SETTING.fp32_precision = "ieee"
    try:
        with products.fast_products():
            assert SETTING.fp32_precision == "ieee"
    finally:
        SETTING.fp32_precision = "none"


def test_threads_are_those_of_before_after_the_block():
    before = torch.get_num_threads()
    with computing(threads=before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
