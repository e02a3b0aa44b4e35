"""A tiny model and a file about the weather; a model that was tuned on it."""

from __future__ import annotations

import pytest
from tests.cli.commands import write_weather
from tests.tiny import save_tiny

from frostline.cli import invoke


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    return write_weather(tmp_path_factory.mktemp("data") / "weather.csv")


@pytest.fixture(scope="module")
def tuned(model, weather, tmp_path_factory):
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    arguments = ["tune", weather, "--model", model, "--plan", "2,2,3", "--epochs", "1", "--learning-rate", "0.01"]
    assert invoke([*arguments, "--output", str(folder)]) == 0
    return folder
