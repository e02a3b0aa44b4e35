"""Arguments of the public functions, resolved to encoders, tasks, recipes and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.errors import OptionError, RecordError
from frostline.files.atomic import read_json
from frostline.records import LayerScores, Recipe
from frostline.tasks import Task, load_task
from frostline.tasks.splits import sample

DEMO_TASK = "movies"
_DEMO_ROWS = {"train": 2000, "validation": 500, "test": 2000}


def to_encoder(given: Encoder | str | Path | None, *, device: str = "cpu") -> Encoder:
    """Return the encoder, loaded from a folder or hub id if necessary; the embedded one for None."""
    if not isinstance(given, Encoder | str | Path | None):
        raise OptionError(f"encoder: must be a folder, a hub id or an Encoder, not a {type(given).__name__}")
    return given if isinstance(given, Encoder) else load_encoder(given, device=device)


def to_task(given: Task | Any, *, seed: int) -> Task:
    """Return the task, loaded if necessary; the embedded data for None."""
    return given if isinstance(given, Task) else load_task(DEMO_TASK if given is None else given, seed=seed)


def to_task_or_sample(given: Task | Any, *, seed: int) -> Task:
    """Return the task, loaded if necessary; a part of the embedded data for None."""
    task = to_task(given, seed=seed)
    return sample_demo(task, seed=seed) if given is None else task


def sample_demo(task: Task, *, seed: int) -> Task:
    """Return a part of the embedded data, small enough for a first run of a few minutes."""
    parts = {name: sample(task.splits[name], count, seed=seed) for name, count in _DEMO_ROWS.items()}
    note = f"a sample of {', '.join(f'{len(part):,} {name}' for name, part in parts.items())} rows"
    return replace(
        task, train=parts["train"], validation=parts["validation"], test=parts["test"], notes=(*task.notes, note)
    )


def to_recipe(given: Recipe | str | Path | None) -> Recipe | None:
    """Return the recipe, read from a JSON file such as a run's recipe.json if necessary."""
    if given is None or isinstance(given, Recipe):
        return given
    try:
        return Recipe.from_json(read_json(Path(given)))
    except OSError as error:
        raise OptionError(f"recipe {given}: {error.strerror}; give a JSON file such as a run's recipe.json") from None
    except (RecordError, ValueError, TypeError) as error:
        raise OptionError(
            f"recipe {given}: is not a recipe in JSON ({error}); give one such as a run's recipe.json"
        ) from None


def recipe_fields(given: Recipe | Mapping[str, Any] | str | Path | None) -> dict[str, Any]:
    """Return the fields of a recipe that are set: all fields of a Recipe or a file, no fields for None."""
    if isinstance(given, Mapping):
        return dict(given)
    recipe = to_recipe(given)
    return {} if recipe is None else recipe.to_json()


def to_scores(given: LayerScores | str | Path | None) -> LayerScores | None:
    """Return the layer scores, read from a saved measurement if necessary."""
    if given is None or isinstance(given, LayerScores):
        return given
    path = Path(given)
    try:
        return LayerScores.from_file(path / "scores.json" if path.is_dir() else path)
    except OSError as error:
        raise OptionError(f"`scores={given}`: {error.strerror}; give the folder of a saved measurement") from None
    except RecordError as error:
        raise OptionError(f"`scores`: {error}; give the folder of a saved measurement") from None
