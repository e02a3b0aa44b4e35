"""What every test may rely on: no network, one thread per worker, and the real encoder where it has been fetched."""

from __future__ import annotations

import os

# Read when torch, tokenizers and the hub client are first imported, so before anything else; subprocesses inherit them.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import socket
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_address
from pathlib import Path

import pytest
from tests.logged import logged

from frostline.files import demo_assets as embedded


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("embedded"):
        _require_embedded()


@pytest.fixture(scope="session")
def embedded_encoder() -> Path:
    """The folder of the embedded encoder: real weights."""
    _require_embedded()
    return embedded.encoder_folder()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real encoders and data beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("no folder `shared` beside the checkout")
    return folder


@pytest.fixture(scope="session", autouse=True)
def only_loopback() -> Iterator[None]:
    """A connection to another machine fails the test, whatever catches exceptions on the way."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        yield


def _guarded(connect):
    def guarded(self: socket.socket, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            pytest.fail(f"a test tried to reach {address[0]}: tests run without network")
        return connect(self, address)

    return guarded


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@cache
def _embedded_is_cached() -> bool:
    return embedded.is_cached(embedded.ENCODER) and embedded.is_cached(embedded.RATINGS)


def _require_embedded() -> None:
    if _embedded_is_cached():
        return
    reason = f"the embedded default is not in {embedded.cache_folder()}: run `make setup`"
    if os.environ.get("FROSTLINE_REQUIRE_EMBEDDED"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def log_lines() -> Iterator[list[str]]:
    """What the library logs during the test."""
    with logged() as lines:
        yield lines
