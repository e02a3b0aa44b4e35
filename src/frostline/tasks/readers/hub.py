"""Datasets from the Hugging Face hub, or saved by `datasets`; every failure is one line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frostline.errors import DataError, FetchError, first_line

if TYPE_CHECKING:
    from datasets import DatasetDict


def load_hub(name: str, *, config: str | None = None, revision: str | None = None, hint: str) -> DatasetDict:
    """Return the splits of a hub dataset. Respects HF_HUB_OFFLINE, HF_HOME and HF_TOKEN; runs no dataset code.

    Args:
        name: owner/name.
        config: the configuration, if the dataset has several.
        revision: branch, tag or commit.
        hint: what to do if the dataset cannot be downloaded; ends the message.
    """
    import datasets

    title = f"{name}:{config}" if config else name
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    if not _is_reachable(name):
        return _load_cached(name, title, config=config, revision=revision, hint=hint)
    try:
        return datasets.load_dataset(name, config, revision=revision)
    except datasets.exceptions.DatasetNotFoundError:
        raise FetchError(f"{title}: no such dataset on the hub, or no access to it; {hint}") from None
    except (OSError, RuntimeError, datasets.exceptions.DatasetsError) as problem:
        raise FetchError(f"{title}: cannot be downloaded from the hub ({_reason(problem)}); {hint}") from None
    except Exception as problem:  # the hub client and its readers may raise anything
        raise DataError(f"{title}: cannot be loaded ({_reason(problem)}); {hint}") from None


def _is_reachable(name: str) -> bool:
    """Whether the hub answers one request; the client itself would retry for half a minute."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        HfApi().dataset_info(name, timeout=10)
    except (HfHubHTTPError, HFValidationError):
        return True  # the hub answered; loading the dataset will raise the right error
    except Exception:  # no answer: the classes differ between versions of the client
        return False
    return True


def _load_cached(name: str, title: str, *, config: str | None, revision: str | None, hint: str) -> DatasetDict:
    """Return the copy in the hub's cache, without a request to the hub."""
    import datasets
    import huggingface_hub.constants

    before = datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = huggingface_hub.constants.HF_HUB_OFFLINE = True
    try:
        return datasets.load_dataset(name, config, revision=revision)
    except Exception:
        raise FetchError(f"{title}: the hub cannot be reached and there is no copy in the cache; {hint}") from None
    finally:
        datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE = before


def is_saved_dataset(folder: str | Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return any((Path(folder) / name).is_file() for name in ("dataset_dict.json", "state.json"))


def load_saved(folder: str | Path) -> Any:
    """Return the `Dataset` or `DatasetDict` that was saved in a folder."""
    import datasets

    try:
        return datasets.load_from_disk(str(folder))
    except Exception as problem:
        raise DataError(f"{folder}: the saved dataset cannot be loaded ({_reason(problem)})") from None


def _reason(problem: BaseException) -> str:
    line = first_line(problem).rstrip(".")
    return line if len(line) <= 160 else f"{line[:157]}..."
