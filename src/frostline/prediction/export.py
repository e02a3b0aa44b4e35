"""Write a run's folder: the model, as a stock Hugging Face folder wherever possible, its card, and the records."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from frostline.encoders.average_head import AverageHead, averaging_layer
from frostline.encoders.families._family import Config, Model
from frostline.encoders.heads import FamilyHead
from frostline.encoders.loading import quiet_transformers
from frostline.files import atomic, output_folder
from frostline.files.provenance import folder_info
from frostline.plans.methods import METHODS
from frostline.prediction.loading import MODEL, OWN_FILE, OWN_WEIGHTS
from frostline.prediction.model_card import write_card
from frostline.prediction.rows import predicted_rows
from frostline.records.folder import FolderKind
from frostline.records.tuned import FrostlineModel
from frostline.training.model import Tunable
from frostline.training.result import Tuned
from frostline.training.stock_model import check_base, is_stock


def save(
    tuned: Tuned,
    folder: str | Path,
    *,
    kind: FolderKind = "tuned",
    files: Mapping[str, Any] | None = None,
    moved: Iterable[Path] = (),
    finish: Callable[[Path], object] | None = None,
) -> None:
    """Write a run's folder; files of an earlier run are replaced, the model as a whole.

    Args:
        tuned: the result of tuning.
        folder: the output folder; created if missing.
        kind: kind of folder, for `frostline.json`.
        files: further JSON files, by name.
        moved: further files, which are moved into the folder.
        finish: function that is called with the complete temporary folder before it is moved into place.
    """
    folder = Path(folder).absolute()
    check_base(tuned.tunable, tuned.base)
    # Built inside the folder if it exists: its parent may be read-only, or on another disk.
    complete = folder / output_folder.SAVING if folder.exists() else folder
    with atomic.build_folder(complete) as building:
        _fill(building, tuned, files or {}, moved, kind=kind)
        if finish is not None:
            finish(building)
    if complete != folder:
        # From here on an interruption leaves the complete result, whose `frostline.json` marks the folder.
        _move_into_place(complete, folder)
        shutil.rmtree(complete, ignore_errors=True)
        with contextlib.suppress(OSError):
            (folder / output_folder.CHECKPOINTS).rmdir()  # where it is empty


def _fill(building: Path, tuned: Tuned, files: Mapping[str, Any], moved: Iterable[Path], *, kind: FolderKind) -> None:
    """Write all files of a run's folder."""
    save_model(tuned, building / MODEL)
    written = {
        "plan.json": tuned.plan.to_json(),
        "recipe.json": tuned.recipe.to_json(),
        "result.json": tuned.to_json(),
        **files,
    }
    write_lines(building / "metrics.jsonl", tuned.trained.history)
    task = tuned.task
    predictions = (
        row.to_json()
        for name, outputs in tuned.outputs.items()
        for row in predicted_rows(outputs, task.splits[name], task.kind, task.label_names, with_labels=True, name=name)
    )
    write_lines(building / "predictions.jsonl", predictions)
    for path in moved:
        path.replace(building / path.name)
    output_folder.write(building, folder_info(kind, seed=tuned.recipe.seed), written)


def save_model(tuned: Tuned, folder: Path) -> None:
    """Write the model, its tokenizer and its card."""
    folder.mkdir(parents=True)
    if is_stock(tuned.tunable):
        model = stock_model(tuned.tunable, tuned.task.label_names)
        with quiet_transformers():
            model.save_pretrained(folder)
    else:
        model = tuned.tunable.model
        _save_own(tuned, folder)
    if tuned.tunable.encoder.tokenizer is not None:
        _fitting_tokenizer(tuned, model).save_pretrained(folder)
    (folder / "README.md").write_text(write_card(tuned, is_stock=is_stock(tuned.tunable)), encoding="utf-8")


def stock_model(tunable: Tunable, label_names: tuple[str, ...] = ()) -> Model:
    """Return the family's ForSequenceClassification or ForMultipleChoice model with the tuned weights.

    It is built without weights, and buffers that are computed on loading stay empty: use it for saving only.
    """
    import transformers

    fold = METHODS[tunable.plan.method].fold
    if fold is not None:  # merge added parameters into the plain weights
        tunable = copy.deepcopy(tunable)
        fold(tunable)
    assert isinstance(tunable.head, FamilyHead)  # noqa: S101 (a stock model has a stock head)
    config = _config(tunable, label_names)
    auto = (
        transformers.AutoModelForMultipleChoice
        if tunable.head.kind == "multiple choice"
        else transformers.AutoModelForSequenceClassification
    )
    with torch.device("meta"):
        stock = auto.from_config(config)
    own = {**tunable.model.state_dict(), **_added_layer(tunable)}
    weights = {f"{stock.base_model_prefix}.{name}": value for name, value in own.items()}
    weights |= tunable.head.stock.state_dict()
    names = stock.state_dict().keys()
    # The base model's own pooler is not used where the stock class has none.
    state = {name: _plain(value) for name, value in weights.items() if name in names}
    stock.load_state_dict(state, strict=True, assign=True)
    return stock.eval()


def _added_layer(tunable: Tunable) -> dict[str, Tensor]:
    """Return the weights, by their names in the base model, of the layer that averages tokens for the head."""
    if not isinstance(tunable.head, AverageHead):
        return {}
    family, last = tunable.encoder.family, tunable.layer(tunable.plan.head)
    name = f"{family.layers_path}.{tunable.plan.head}"
    return {f"{name}.{key}": value for key, value in averaging_layer(family, last).state_dict().items()}


def _config(tunable: Tunable, label_names: tuple[str, ...]) -> Config:
    """Return the configuration of the cut encoder, with the labels of the head."""
    kind, old = tunable.head.kind, tunable.encoder.config
    config = type(old).from_dict(old.to_dict())
    if isinstance(tunable.head, AverageHead):
        config.num_hidden_layers += 1
    if kind == "regression":
        config.num_labels = 1
    else:
        config.id2label = dict(enumerate(label_names))
        config.label2id = {name: number for number, name in enumerate(label_names)}
    config.problem_type = {"classification": "single_label_classification", "regression": "regression"}.get(kind)
    return config


def _plain(value: Tensor) -> Tensor:
    return value.detach().cpu().contiguous()


def _save_own(tuned: Tuned, folder: Path) -> None:
    """Write the trained parameters, and how to find the encoder."""
    from safetensors.torch import save_file

    save_file({name: _plain(value) for name, value in tuned.tunable.trainable().items()}, folder / OWN_WEIGHTS)
    about = FrostlineModel(
        base=tuned.base,
        plan=tuned.plan,
        recipe=tuned.recipe,
        task=tuned.task.kind,
        labels=tuned.task.label_names,
        max_length=_max_length(tuned),
    )
    atomic.write_json(folder / OWN_FILE, about.to_json())


def _max_length(tuned: Tuned) -> int:
    return tuned.recipe.max_length or tuned.tunable.encoder.default_length


def _fitting_tokenizer(tuned: Tuned, model: Model) -> Any:
    """Return a tokenizer that cuts texts as in training and returns only inputs of the model."""
    tokenizer = copy.deepcopy(tuned.tunable.encoder.tokenizer)
    tokenizer.model_max_length = _max_length(tuned)
    takes = set(inspect.signature(type(model).forward).parameters)
    if getattr(model.config, "type_vocab_size", 0) < 2:
        takes.discard("token_type_ids")
    names = [name for name in tokenizer.model_input_names if name in takes]
    if names != list(tokenizer.model_input_names):
        tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = names
    return tokenizer


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def _move_into_place(complete: Path, folder: Path) -> None:
    """Move the built files into the folder; `frostline.json`, which marks a complete result, comes last."""
    if (folder / MODEL).exists():
        (folder / MODEL).rename(complete / "replaced")
    (complete / MODEL).rename(folder / MODEL)
    for path in sorted(complete.iterdir(), key=lambda path: path.name == "frostline.json"):
        if path.is_file():
            path.replace(folder / path.name)
