"""From a hub id, a local folder or None (the embedded default) to an encoder.

Weights come from safetensors only, code that comes with a model is never run, and mistakes in a folder are reported in
one line before anything large is read.
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
from frostline.errors import EncoderError, FetchError, first_line
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
    """Return a pretrained encoder in float32, in eval mode.

    Args:
        model: a folder with a Hugging Face model, a hub id, or None for the embedded default, which needs no hub.
        revision: branch, tag or commit on the hub.
        device: the device of the weights.

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
    """Return the identifier of a local model: a hash over its configuration, tokenizer and weights."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _WANTED_FILES for path in folder.glob(pattern)):
        digest.update(f"{path.name}:{path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)  # adds the content to the same digest
    return f"sha256:{digest.hexdigest()}"


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """Return the contents of a folder's config.json; refuse it if it or the tokenizer's asks to run code."""
    if not (folder / "config.json").is_file():
        if (folder / "model" / "config.json").is_file():
            raise EncoderError(f"{name}: is the folder of a run; its model is {folder / 'model'}")
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
        raise EncoderError(f"{path}: must contain a JSON object, not a {type(config).__name__}")
    if "auto_map" in config:
        raise EncoderError(f"{name}: asks to run its own code (auto_map in {path.name}), which Frostline never does")
    return config


def _locate(model: str | Path | None, revision: str | None) -> tuple[Path, str, str | None, Origin]:
    """Return the model's folder, its name, its revision if that is known, and its origin."""
    if model is None:
        from frostline.files import demo_assets as embedded

        return embedded.encoder_folder(), EMBEDDED_NAME, None, "demo"
    if not str(model).strip():
        raise EncoderError("model '': no such folder; omit it to use the embedded default")
    path = Path(model).expanduser()
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as error:  # a name too long for the file system, a folder without permission to read
        raise EncoderError(f"model {str(model)[:60]!r}: not a folder ({error.strerror})") from None
    if is_folder and revision is not None:
        raise EncoderError(f"{model}: is a folder, and only hub ids have a revision; omit `revision`")
    if is_folder:
        return path, str(model), None, "folder"
    if is_file:
        raise EncoderError(f"{model}: is a file; give the folder with config.json and the weights")
    name = str(model)
    if isinstance(model, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise EncoderError(f"{model}: no such folder; give a folder with config.json and the weights, or a hub id")
    folder = _download(name, revision)
    return folder, name, folder.name, "hub"  # the hub's cache names a snapshot's folder by its commit


def _download(model: str, revision: str | None) -> Path:
    """Return the folder with the hub's files, from the network or the hub's own cache."""
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
            f"model {model!r}: no such folder, and it cannot be downloaded from the hub ({first_line(error)}); give a "
            f"folder with the model, or omit it to use the embedded {EMBEDDED_NAME}"
        ) from error


def _check_config(config: dict[str, Any], name: str) -> None:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        supported = ", ".join(FAMILIES)
        raise EncoderError(f"{name}: architecture {kind!r} is not supported; supported model types: {supported}")
    for key in FAMILIES[kind].depth_keys:
        if key in config and not (isinstance(config[key], int) and config[key] >= 1):
            raise EncoderError(f"{name}: {key} is {config[key]!r} in config.json; at least 1 layer is needed")
    for key in _ATTENTION_KEYS:
        if config.get(key) not in (None, "eager", "sdpa"):
            # Other names may be code that transformers would download from the hub.
            raise EncoderError(f"{name}: {key} is {config[key]!r} in config.json; only eager and sdpa are supported")


def _check_files(folder: Path, name: str) -> None:
    if not list(folder.glob("*.safetensors")):
        others = sorted(
            path.name for pattern in ("*.bin", "*.pt", "*.h5", "*.msgpack") for path in folder.glob(pattern)
        )
        weights = f"only {others[0]}" if others else "no safetensors"
        raise EncoderError(
            f"{name}: contains {weights}, and weights are read from safetensors only; "
            "load it with transformers and save it with save_pretrained"
        )
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            if file.read(len(_LFS)) == _LFS:
                raise EncoderError(f"{path}: is a Git LFS pointer, not the weights; get them with `git lfs pull`")
    if (folder / "adapter_config.json").is_file():
        raise EncoderError(f"{name}: is a PEFT adapter (adapter_config.json); merge it into the model and save that")
    if not any((folder / file).is_file() for file in _TOKENIZER_FILES):
        raise EncoderError(
            f"{name}: has no tokenizer ({', '.join(_TOKENIZER_FILES[:3])}, ...); save it beside the model"
        )


def _damaged_weights(folder: Path) -> str | None:
    """Return the name of the first file of weights that cannot be opened."""
    from safetensors import SafetensorError, safe_open

    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt"):
                pass
        except (SafetensorError, OSError):
            return path.name
    return None


def _load_weights(folder: Path, name: str) -> tuple[Any, bool]:
    """Return the base model in float32, and whether the checkpoint contains its pooler."""
    from transformers import AutoModel

    try:
        model, report = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            ignore_mismatched_sizes=True,  # reported below, in one line
            output_loading_info=True,
        )
    except Exception as error:
        # transformers raises a dozen kinds here, from broken headers to impossible sizes in config.json.
        damaged = _damaged_weights(folder)
        problem = "the model cannot be loaded" if damaged is None else f"{damaged} is damaged; download it again"
        raise EncoderError(f"{name}: {problem}: {first_line(error)}") from error
    pooler = FAMILIES[model.config.model_type].pooler_path
    missing_pooler = {key for key in report["missing_keys"] if pooler is not None and key.startswith(f"{pooler}.")}
    missing = sorted(set(report["missing_keys"]) - missing_pooler)
    if missing:
        raise EncoderError(
            f"{name}: the weights lack {len(missing)} tensors that config.json requires, such as {missing[0]}"
        )
    if report["mismatched_keys"]:
        key = sorted(str(entry[0]) for entry in report["mismatched_keys"])[0]
        raise EncoderError(f"{name}: the shape of {key} in the weights does not fit config.json")
    for key, value in model.named_parameters():
        if not bool(torch.isfinite(value).all()):
            raise EncoderError(f"{name}: {key} contains NaN or infinite values; the weights are broken")
    return model, not missing_pooler


def _load_tokenizer(folder: Path, name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:
        raise EncoderError(f"{name}: the tokenizer cannot be loaded: {first_line(error)}") from error


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Turn off the progress bars and load reports of transformers; Frostline checks and reports what matters."""
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
