"""Load a tuned model: any stock Hugging Face classifier, or a model that only Frostline can run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import FamilyHead, HeadKind, family_head
from frostline.encoders.loading import EMBEDDED_NAME, load_encoder, read_config
from frostline.errors import EncoderError, OptionError, RecordError
from frostline.files.atomic import read_json
from frostline.progress import Progress, silent
from frostline.records import BaseEncoder, Origin, Plan
from frostline.records.encoder_and_task import TunedTask
from frostline.records.tuned import FrostlineModel
from frostline.tasks import Split
from frostline.training.dataset import Examples, tokenize_split
from frostline.training.loop import load_weights
from frostline.training.model import Tunable, make_tunable

MODEL = "model"  # the model's folder in a run's folder
OWN_FILE = "frostline-model.json"  # describes a model that is not a stock one
OWN_WEIGHTS = "tuned.safetensors"


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """A tuned model that is ready to predict.

    Args:
        tunable: the model.
        kind: kind of task.
        label_names: names by class number; by position for multiple choice, empty for regression.
        max_length: number of tokens at which texts are cut.
        name: name in messages.
        tuned_on: the task as recorded in the run's folder; None for a model without one.
    """

    tunable: Tunable
    kind: HeadKind
    label_names: tuple[str, ...]
    max_length: int
    name: str
    tuned_on: TunedTask | None = None

    def outputs(self, split: Split, *, progress: Progress = silent) -> Tensor:
        """Return logits or values of every row, (rows, outputs); labels are not used."""
        tokens, offsets = tokenize_split(self.tunable.encoder, split, max_length=self.max_length)
        rows = Examples(tokens=tokens, states=None, labels=torch.tensor(split.labels), offsets=offsets)
        return rows.outputs(self.tunable, progress=progress)


def load_tuned(
    folder: str | Path, *, encoder: Encoder | str | Path | None = None, device: str | torch.device = "cpu"
) -> Predictor:
    """Load the tuned model in a folder.

    Args:
        folder: a run's folder, the `model` folder in it, or any folder with a stock classifier.
        encoder: the encoder of a model that is not a stock one, if it has moved since tuning.
        device: device of the weights.
    """
    path = find_model(Path(folder).expanduser())
    if (path / OWN_FILE).is_file():
        return _load_own(path, encoder, device)
    return _load_stock(path, device)


def find_model(folder: Path) -> Path:
    """Return the folder that contains the model: the one given, or `model` in it."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise EncoderError(f"{folder}: {what}; give the folder of a tuned model")
    for path in (folder, folder / MODEL):
        if (path / OWN_FILE).is_file() or (path / "config.json").is_file():
            return path
    if (folder / "frostline.json").is_file() or (folder / "checkpoints").is_dir():
        raise EncoderError(f"{folder}: contains no model; if the run was interrupted, continue it with `resume=True`")
    raise EncoderError(f"{folder}: contains neither config.json nor {OWN_FILE}; give the folder of a tuned model")


def _load_stock(folder: Path, device: str | torch.device) -> Predictor:
    kind = _kind_of(read_config(folder, str(folder)), folder)
    encoder = load_encoder(folder, device=device)
    config = encoder.config
    outputs = 1 if kind != "classification" else int(config.num_labels)
    head = family_head(config, labels=outputs, kind=kind)
    _fill(head, folder)
    # All layers count as tuned, so that the last one runs only for the token that the head reads.
    plan = Plan.span(1, encoder.depth, encoder.depth)
    tunable = Tunable(encoder, head, plan).to(encoder.device).requires_grad_(False).eval()
    return Predictor(
        tunable=tunable,
        kind=kind,
        label_names=() if kind == "regression" else tuple(str(config.id2label[key]) for key in sorted(config.id2label)),
        max_length=encoder.default_length,
        name=str(folder),
        tuned_on=_tuned_on(folder),
    )


def _tuned_on(folder: Path) -> TunedTask | None:
    """Return the task that the run's folder around a model names; None for a model alone."""
    try:
        return TunedTask.from_json(read_json(folder.absolute().parent / "result.json")["task"])
    except (OSError, ValueError, KeyError, TypeError, RecordError):
        return None


def _kind_of(config: dict[str, Any], folder: Path) -> HeadKind:
    """Return the kind of task of a classifier, by its configuration."""
    classes = [str(name) for name in config.get("architectures") or ()]
    if any(name.endswith("ForMultipleChoice") for name in classes):
        return "multiple choice"
    if not any(name.endswith("ForSequenceClassification") for name in classes):
        named = ", ".join(classes) or "no class"
        raise EncoderError(f"{folder}: is not a tuned classifier (config.json names {named}); tune it first")
    if config.get("problem_type") == "multi_label_classification":
        raise EncoderError(f"{folder}: is a multi-label classifier, which is not supported")
    labels = config.get("id2label")
    is_single = isinstance(labels, dict) and len(labels) == 1
    return "regression" if config.get("problem_type") == "regression" or is_single else "classification"


def _fill(head: FamilyHead, folder: Path) -> None:
    """Load the head's weights from the folder's files."""
    from safetensors import safe_open

    own = head.stock.state_dict()
    loaded: set[str] = set()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file, torch.no_grad():
            for name in set(file.keys()) & set(own):
                value = file.get_tensor(name)
                if value.shape != own[name].shape:
                    raise EncoderError(f"{folder}: the shape of {name} in the weights does not match config.json")
                own[name].copy_(value)
                loaded.add(name)
    if missing := sorted(set(own) - loaded):
        raise EncoderError(f"{folder}: the weights lack {missing[0]}, so it is not a tuned classifier; tune it first")


def _load_own(folder: Path, moved: Encoder | str | Path | None, device: str | torch.device) -> Predictor:
    from safetensors.torch import load_file

    about = _read_own(folder / OWN_FILE)
    base, plan, kind, names = about.base, about.plan, about.task, about.labels
    encoder = moved if isinstance(moved, Encoder) else _load_base(base, moved, folder, device)
    if encoder.revision != base.revision:
        raise EncoderError(
            f"{folder}: was tuned from another version of {base.name} ({base.revision[:19]}) than the one in "
            f"{encoder.name} ({encoder.revision[:19]}); give the right one with `encoder`"
        )
    tunable = make_tunable(
        encoder, plan, outputs=len(names) if kind == "classification" else 1, kind=kind, head=about.recipe.head
    )
    try:
        load_weights(tunable, load_file(folder / OWN_WEIGHTS))
    except (OSError, ValueError, RuntimeError) as error:
        raise EncoderError(f"{folder / OWN_WEIGHTS}: does not match {OWN_FILE} ({error})") from None
    tunable.requires_grad_(False)
    return Predictor(
        tunable=tunable,
        kind=kind,
        label_names=names,
        max_length=about.max_length,
        name=str(folder),
        tuned_on=_tuned_on(folder),
    )


def _read_own(path: Path) -> FrostlineModel:
    """Return how to put a model together; files of the first releases do not record the encoder's origin."""
    try:
        data = read_json(path)
        with suppress(KeyError, TypeError):
            data["base"] = {"origin": _guess_origin(data["base"]), **data["base"]}
        return FrostlineModel.from_json(data)
    except OSError as error:
        raise EncoderError(f"{path}: cannot be read ({error.strerror})") from None
    except (RecordError, ValueError) as error:
        raise EncoderError(f"{path}: cannot be read ({error})") from None


def _guess_origin(data: Mapping[str, Any]) -> Origin:
    """Return the origin of an encoder by its name and by the form of its revision."""
    if data["name"] == EMBEDDED_NAME:
        return "demo"
    return "folder" if str(data["revision"]).startswith("sha256:") else "hub"


def _load_base(base: BaseEncoder, moved: str | Path | None, folder: Path, device: str | torch.device) -> Encoder:
    """Load the encoder that a model was tuned from: from the user's argument, or from its recorded origin."""
    if moved is not None:
        return load_encoder(moved, device=device)
    if base.origin == "demo":
        return load_encoder(device=device)
    if base.origin == "hub":
        return load_encoder(base.name, revision=base.revision, device=device)
    if not Path(str(base.folder)).is_dir():
        raise OptionError(
            f"{folder}: needs the encoder that it was tuned from, and {base.folder} is gone; give its new "
            "folder with `encoder`"
        )
    return load_encoder(Path(str(base.folder)), device=device)
