"""A run's folder: the model, as a stock Hugging Face folder wherever possible, its card, and what was recorded."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from frostline.encoders.families._family import Config, Model
from frostline.encoders.heads import FamilyHead
from frostline.encoders.loading import quiet_transformers
from frostline.files import atomic, output_folder
from frostline.files.provenance import folder_info
from frostline.plans.methods import METHODS
from frostline.prediction.loading import MODEL, OWN_FILE, OWN_WEIGHTS
from frostline.prediction.loading import load_tuned as load_tuned
from frostline.prediction.model_card import write_card
from frostline.prediction.rows import predicted_rows
from frostline.records.folder import FolderKind
from frostline.records.tuned import FrostlineModel
from frostline.training.model import Tunable
from frostline.training.stock import check_base, is_stock

if TYPE_CHECKING:
    from frostline.training.result import Tuned


def save(
    tuned: Tuned,
    folder: str | Path,
    *,
    kind: FolderKind = "tuned",
    files: Mapping[str, Any] | None = None,
    moved: Iterable[Path] = (),
    finish: Callable[[Path], object] | None = None,
) -> None:
    """Write a run's folder; what an earlier run left in it is replaced, the model as a whole.

    Args:
        tuned: what came out of tuning.
        folder: made if it is not there.
        kind: of folder, for `frostline.json`.
        files: more that is written as JSON, by name.
        moved: more files, which are moved there.
        finish: called with the place where all that is written, before it is moved into the folder.
    """
    folder = Path(folder).absolute()
    check_base(tuned.tunable, tuned.base)
    # Beside a new folder, and in one that is there: what lies beside it may not be writable, or on another disk.
    complete = folder / output_folder.SAVING if folder.exists() else folder
    with atomic.build_folder(complete) as building:
        _fill(building, tuned, files or {}, moved, kind=kind)
        if finish is not None:
            finish(building)
    if complete != folder:
        # From here on an interruption leaves the complete result, which says that the folder is ours.
        _move_into_place(complete, folder)
        shutil.rmtree(complete, ignore_errors=True)
        with contextlib.suppress(OSError):
            (folder / output_folder.CHECKPOINTS).rmdir()  # where it is empty


def _fill(building: Path, tuned: Tuned, files: Mapping[str, Any], moved: Iterable[Path], *, kind: FolderKind) -> None:
    """Write everything that a run's folder holds."""
    save_model(tuned, building / MODEL)
    written = {
        "plan.json": tuned.plan.to_json(),
        "recipe.json": tuned.recipe.to_json(),
        "result.json": tuned.to_json(),
        **files,
    }
    _write_lines(building / "metrics.jsonl", tuned.trained.history)
    _write_lines(building / "predictions.jsonl", _predictions(tuned))
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
    card = write_card(tuned, is_stock=is_stock(tuned.tunable))
    (folder / "README.md").write_text(card, encoding="utf-8")


def stock_model(tunable: Tunable, label_names: tuple[str, ...] = ()) -> Model:
    """The family's ForSequenceClassification or ForMultipleChoice model with the tuned weights.

    Built without weights of its own, so that buffers which are computed on loading are not filled: it is there to be
    saved.
    """
    import transformers

    assert isinstance(tunable.head, FamilyHead)  # noqa: S101 (a stock model has a stock head)
    folded = _folded(tunable)
    config = _config(tunable, label_names)
    auto = (
        transformers.AutoModelForMultipleChoice
        if tunable.head.kind == "multiple choice"
        else transformers.AutoModelForSequenceClassification
    )
    with torch.device("meta"):
        stock = auto.from_config(config)
    known = {f"{stock.base_model_prefix}.{name}": value for name, value in folded.model.state_dict().items()}
    known |= cast(FamilyHead, folded.head).stock.state_dict()
    wanted = stock.state_dict()
    # The base model's own pooler goes unused where the stock class has none.
    state = {name: _plain(value) for name, value in known.items() if name in wanted}
    stock.load_state_dict(state, strict=True, assign=True)
    return stock.eval()


def _folded(tunable: Tunable) -> Tunable:
    """The model with what its method added put into the plain weights; a copy where there is something to do."""
    fold = METHODS[tunable.plan.method].fold
    if fold is None:
        return tunable
    new = copy.deepcopy(tunable)
    fold(new)
    return new


def _config(tunable: Tunable, label_names: tuple[str, ...]) -> Config:
    """The configuration of the cut encoder, with what the head answers."""
    kind = tunable.head.kind
    old = tunable.encoder.config
    config = type(old).from_dict(old.to_dict())
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
    """What trained, and how to find the rest."""
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
    """The tokenizer, cutting texts where they were cut in training and giving only what the model takes."""
    tokenizer = copy.deepcopy(tuned.tunable.encoder.tokenizer)
    tokenizer.model_max_length = _max_length(tuned)
    takes = set(inspect.signature(type(model).forward).parameters)
    if getattr(model.config, "type_vocab_size", 0) < 2:
        takes.discard("token_type_ids")
    names = [name for name in tokenizer.model_input_names if name in takes]
    if names != list(tokenizer.model_input_names):
        tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = names
    return tokenizer


def _predictions(tuned: Tuned) -> Iterable[dict[str, Any]]:
    for name, outputs in tuned.outputs.items():
        split, task = tuned.task.splits[name], tuned.task
        for row in predicted_rows(outputs, split, task.kind, task.label_names, with_labels=True, name=name):
            yield row.to_json()


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def _move_into_place(complete: Path, folder: Path) -> None:
    """Replace what is there by what was built; `frostline.json`, which says that a result is there, comes last."""
    if (folder / MODEL).exists():
        (folder / MODEL).rename(complete / "replaced")
    (complete / MODEL).rename(folder / MODEL)
    for path in sorted(complete.iterdir(), key=lambda path: path.name == "frostline.json"):
        if path.is_file():
            path.replace(folder / path.name)
