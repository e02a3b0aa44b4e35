"""From a hub id, a local folder or nothing (the embedded default) to an encoder.

Weights come from safetensors only, no code that comes with a model is ever run, and what is wrong with a folder is said
in one line before anything large is read.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from frostline.encoders.encoder import Encoder
from frostline.encoders.families import FAMILIES
from frostline.errors import EncoderError, FetchError
from frostline.files.atomic import read_json
from frostline.records import Origin

EMBEDDED_NAME = "all-MiniLM-L6-v2"

# All that an encoder needs, and nothing that could be code or a pickle.
_WANTED_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
_LFS = b"version https://git-lfs"
_ATTENTION_KEYS = ("_attn_implementation", "attn_implementation", "_attn_implementation_internal")
_TOKENIZER_FILES = ["tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "spiece.model", "sentencepiece.bpe.model"]


def load_encoder(
    model: str | Path | None = None, *, revision: str | None = None, device: str | torch.device = "cpu"
) -> Encoder:
    """A pretrained encoder in float32, in eval mode.

    Args:
        model: a folder with a Hugging Face model, a hub id, or None for the embedded default, which needs no hub.
        revision: branch, tag or commit on the hub.
        device: where to put the weights.

    Example:
        >>> frostline.load_encoder().name
        'all-MiniLM-L6-v2'
    """
    folder, name, revision, origin = _locate(model, revision)
    config = read_config(folder, name)
    _check_config(config, name)
    _check_files(folder, name)
    with quiet_transformers():
        loaded, has_pooler = _load_weights(folder, name)
        tokenizer = _load_tokenizer(folder, name)
    return Encoder(
        loaded.to(device),
        tokenizer,
        name=name,
        revision=revision or fingerprint(folder),
        folder=folder,
        origin=origin,
        has_pretrained_pooler=has_pooler,
    )


def fingerprint(folder: Path) -> str:
    """What identifies a local model: a hash over its configuration, tokenizer and weights."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _WANTED_FILES for path in folder.glob(pattern)):
        digest.update(f"{path.name}:{path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)  # adds the content to what is in it already
    return f"sha256:{digest.hexdigest()}"


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """The contents of a folder's config.json; neither it nor the tokenizer's may ask for code to be run."""
    if not (folder / "config.json").is_file():
        if (folder / "model" / "config.json").is_file():
            raise EncoderError(f"{name}: is a run's folder; its model is {folder / 'model'}")
        raise EncoderError(f"{name}: has no config.json; give a folder saved with save_pretrained, or a hub id")
    if (folder / "tokenizer_config.json").is_file():
        _read_json(folder / "tokenizer_config.json", name)
    return _read_json(folder / "config.json", name)


def _read_json(path: Path, name: str) -> dict[str, Any]:
    try:
        config = read_json(path)
    except ValueError as error:
        raise EncoderError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(config, dict):
        raise EncoderError(f"{path}: must hold a JSON object, not a {type(config).__name__}")
    if "auto_map" in config:
        raise EncoderError(f"{name}: asks to run its own code (auto_map in {path.name}), which is never done")
    return config


def _locate(model: str | Path | None, revision: str | None) -> tuple[Path, str, str | None, Origin]:
    """The folder that holds the model, the name to call it by, its revision where that is known, and its origin."""
    if model is None:
        from frostline.files import demo_assets as embedded

        return embedded.encoder_folder(), EMBEDDED_NAME, None, "demo"
    if not str(model).strip():
        raise EncoderError("model '': no such folder; leave it out to use the embedded default")
    path = Path(model).expanduser()
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as error:  # a name too long for the file system, a folder that may not be looked into
        raise EncoderError(f"model {str(model)[:60]!r}: not a folder ({error.strerror})") from None
    if is_folder and revision is not None:
        raise EncoderError(f"{model}: is a folder, and a revision goes with a hub id; leave `revision` out")
    if is_folder:
        return path, str(model), None, "folder"
    if is_file:
        raise EncoderError(f"{model}: is a file; give the folder that holds config.json and the weights")
    if isinstance(model, Path) or _looks_like_a_path(model):
        raise EncoderError(
            f"{model}: no such folder; give a folder that holds config.json and the weights, or a hub id"
        )
    folder = _download(model, revision)
    return folder, model, folder.name, "hub"  # the hub's cache names a snapshot's folder by its commit


def _looks_like_a_path(model: str) -> bool:
    return model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model


def _download(model: str, revision: str | None) -> Path:
    """The folder with the hub's files; only the network or the hub's own cache is asked."""
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=_WANTED_FILES))
    except errors.HFValidationError:
        raise EncoderError(f"model {model!r}: neither a folder nor a possible hub id") from None
    except errors.GatedRepoError:
        raise FetchError(f"model {model!r}: gated on the hub; ask for access there and set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise FetchError(f"model {model!r}: the hub has no revision {revision!r}") from None
    except errors.RepositoryNotFoundError:
        raise FetchError(f"model {model!r}: no such folder, and the hub has no such model") from None
    except Exception as error:
        # Offline mode, no network, a proxy's refusal, a full disk: the HTTP library's errors differ between versions.
        raise FetchError(
            f"model {model!r}: no such folder, and it cannot be had from the hub ({_first_line(error)}); give a folder "
            f"with the model, or leave it away to use the embedded {EMBEDDED_NAME}"
        ) from error


def _check_config(config: dict[str, Any], name: str) -> None:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise EncoderError(f"{name}: architecture {kind!r} is not supported; supported model types: {known}")
    for key in FAMILIES[kind].depth_keys:
        if key in config and not (isinstance(config[key], int) and config[key] >= 1):
            raise EncoderError(f"{name}: {key} is {config[key]!r} in config.json; at least 1 layer is needed")
    for key in _ATTENTION_KEYS:
        if config.get(key) not in (None, "eager", "sdpa"):
            # Other names may stand for code that transformers would fetch from the hub.
            raise EncoderError(f"{name}: {key} is {config[key]!r} in config.json; only eager and sdpa are run")


def _check_files(folder: Path, name: str) -> None:
    if not list(folder.glob("*.safetensors")):
        others = sorted(
            path.name for pattern in ("*.bin", "*.pt", "*.h5", "*.msgpack") for path in folder.glob(pattern)
        )
        found = f"only {others[0]}" if others else "no safetensors"
        raise EncoderError(
            f"{name}: holds {found}, and weights are read from safetensors only; "
            "load it with transformers and save_pretrained it again"
        )
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            if file.read(len(_LFS)) == _LFS:
                raise EncoderError(f"{path}: is a Git LFS pointer and not the weights; fetch them with `git lfs pull`")
    if (folder / "adapter_config.json").is_file():
        raise EncoderError(f"{name}: holds a PEFT adapter (adapter_config.json); merge it into the model and save that")
    if not any((folder / file).is_file() for file in _TOKENIZER_FILES):
        raise EncoderError(
            f"{name}: has no tokenizer ({', '.join(_TOKENIZER_FILES[:3])}, ...); save it beside the model"
        )


def _damaged_weights(folder: Path) -> str | None:
    """The first file of weights that cannot even be opened."""
    from safetensors import SafetensorError, safe_open

    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt"):
                pass
        except (SafetensorError, OSError):
            return path.name
    return None


def _load_weights(folder: Path, name: str) -> tuple[Any, bool]:
    """The base model in float32, and whether its pooler came with the checkpoint."""
    from transformers import AutoModel

    try:
        model, report = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            ignore_mismatched_sizes=True,  # reported below, in a line of our own
            output_loading_info=True,
        )
    except Exception as error:
        # transformers raises a dozen kinds here, from broken headers to impossible sizes in config.json.
        damaged = _damaged_weights(folder)
        what = "the model cannot be loaded" if damaged is None else f"{damaged} is damaged or cut off; fetch it again"
        raise EncoderError(f"{name}: {what}: {_first_line(error)}") from error
    family = FAMILIES[model.config.model_type]
    missing = sorted(key for key in report["missing_keys"] if not _is_pooler(key, family.pooler_path))
    if missing:
        raise EncoderError(
            f"{name}: the weights lack {len(missing)} tensors that config.json asks for, such as {missing[0]}"
        )
    if report["mismatched_keys"]:
        key = sorted(str(entry[0]) for entry in report["mismatched_keys"])[0]
        raise EncoderError(f"{name}: the shape of {key} in the weights does not fit config.json")
    for key, value in model.named_parameters():
        if not bool(torch.isfinite(value).all()):
            raise EncoderError(f"{name}: {key} holds NaN or infinite values; the weights are broken")
    has_pooler = not any(_is_pooler(key, family.pooler_path) for key in report["missing_keys"])
    return model, has_pooler


def _is_pooler(key: str, path: str | None) -> bool:
    return path is not None and key.startswith(f"{path}.")


def _load_tokenizer(folder: Path, name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:
        raise EncoderError(f"{name}: the tokenizer cannot be loaded: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and load reports from transformers: what matters of them is checked and said in one line."""
    from transformers.utils import logging

    level, had_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bar:
            logging.enable_progress_bar()
