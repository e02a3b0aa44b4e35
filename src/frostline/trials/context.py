"""Encoders and tasks of trials, loaded in every process that runs some."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.encoders.surgery import operate
from frostline.errors import EncoderError
from frostline.progress import Progress, silent
from frostline.records import TrialResult, TrialSpec
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs

_MOST_KEPT = 4  # shared inputs in memory: each holds an encoder, tokens and open frozen states


@dataclass(frozen=True, kw_only=True)
class TrialKind:
    """One kind of trial, beside plain tuning.

    Args:
        name: the name in a trial's specification.
        run: runs a trial; a function of a module, so that other processes can import it.
        tunings: the work of a trial relative to tuning once, for time estimates.
    """

    name: str
    run: Callable[[Context, TrialSpec], TrialResult]
    tunings: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Materials:
    """Where the encoders and tasks of trials come from; small enough to be sent to other processes.

    Args:
        encoders: arguments of `load_encoder`, by revision.
        tasks: tasks by fingerprint.
        kinds: the kinds of trials besides plain tuning.
        folder: folder for checkpoints of trials that run; None to write none.
        kept: folder for models of trials that are kept for later; None to keep none.
        predictions: the splits whose predictions are recorded; the test rows, and further test splits with them, are
            read only where they are among them.
        cache: keep frozen states on disk.
        device: device to compute on.
    """

    encoders: Mapping[str, str | None]
    tasks: Mapping[str, Task]
    kinds: tuple[TrialKind, ...] = ()
    folder: Path | None = None
    kept: Path | None = None
    predictions: tuple[str, ...] = ("test",)
    cache: bool = True
    device: str = "cpu"


@dataclass(kw_only=True)
class Context:
    """The encoders and shared inputs of one process, loaded when a trial first needs them.

    Args:
        materials: sources of encoders and tasks.
        encoders: loaded encoders by revision.
        progress: progress callback of the trial that runs.
    """

    materials: Materials
    encoders: dict[str, Encoder] = field(default_factory=dict)
    progress: Progress = silent
    _shared: OrderedDict[str, SharedInputs] = field(default_factory=OrderedDict)

    def encoder(self, revision: str) -> Encoder:
        """Return the encoder as it was pretrained."""
        if revision not in self.encoders:
            loaded = load_encoder(self.materials.encoders[revision], device=self.materials.device)
            if loaded.revision != revision:
                raise EncoderError(f"{loaded.name}: its files have changed since the first trial; restore them")
            self.encoders[revision] = loaded
        return self.encoders[revision]

    def task(self, spec: TrialSpec) -> Task:
        """Return the trial's task."""
        return self.materials.tasks[spec.task.fingerprint]

    def shared(self, spec: TrialSpec) -> SharedInputs:
        """Return the inputs that trials on this encoder, after this surgery, and this task share."""
        key = _shared_key(spec)
        if key not in self._shared:
            self._shared[key] = SharedInputs.for_recipe(
                operate(self.encoder(spec.encoder.revision), spec.surgery, seed=spec.recipe.seed),
                self.task(spec),
                spec.recipe,
                keep=self.materials.cache,
                progress=lambda step: self.progress(step),  # the callback of that time
            )
            while len(self._shared) > _MOST_KEPT:
                self._shared.popitem(last=False)
        self._shared.move_to_end(key)
        return self._shared[key]

    def share(self, spec: TrialSpec, shared: SharedInputs) -> None:
        """Use existing inputs for trials like this one."""
        self._shared[_shared_key(spec)] = shared

    def checkpoints(self, spec: TrialSpec) -> Path | None:
        """Return the folder for the trial's checkpoints, so that a long trial loses little when it is killed."""
        folder = self.materials.folder
        return None if folder is None else checkpoint_folder(folder, spec)


def checkpoint_folder(folder: Path, spec: TrialSpec) -> Path:
    """Return the folder of a trial's checkpoints, which trials that differ in length alone share.

    Args:
        folder: the folder of all checkpoints.
        spec: the trial.
    """
    return folder / "trials" / replace(spec, recipe=spec.recipe.of_any_length()).id


def _shared_key(spec: TrialSpec) -> str:
    recipe = spec.recipe
    # Only new weights depend on the seed; otherwise all seeds share their inputs.
    drawn = recipe.seed if spec.surgery.get("reinitialise") else None
    surgery = spec.to_json()["surgery"]
    fields = [spec.encoder.revision, surgery, drawn, spec.task.to_json(), recipe.max_length, recipe.cache_dtype]
    return json.dumps(fields, sort_keys=True)
