"""What trials are made from: encoders and tasks, loaded in every process that runs some."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.encoders.surgery import operate
from frostline.errors import EncoderError
from frostline.progress import Progress, silent
from frostline.records import TrialResult, TrialSpec
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs

_MOST_KEPT = 4  # kept at a time: each holds an encoder, tokens and open frozen states


@dataclass(frozen=True, kw_only=True)
class TrialKind:
    """One kind of trial, beside plain tuning.

    Args:
        name: the name that trials ask for it by.
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
        encoders: by revision, what `load_encoder` takes.
        tasks: by fingerprint.
        kinds: the kinds of trials besides plain tuning.
        folder: where trials keep their checkpoints while they run; None where nothing outlives the process.
        kept: where models of trials are kept for later; None where they cannot be.
        predictions: the splits whose predictions are recorded; the test rows are read only where they are among them.
        cache: keep frozen states on disk.
        device: where to compute.
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
    """The encoders and shared inputs of one process, made when a trial first needs them.

    Args:
        materials: where they come from.
        encoders: those that are loaded, by revision.
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
        """Return what trials on this encoder, after this surgery, and this task share."""
        key = _shared_key(spec)
        if key not in self._shared:
            self._shared[key] = SharedInputs.for_recipe(
                operate(self.encoder(spec.encoder.revision), spec.surgery, seed=spec.recipe.seed),
                self.task(spec),
                spec.recipe,
                keep=self.materials.cache,
                progress=lambda step: self.progress(step),  # whoever listens at that time
            )
            while len(self._shared) > _MOST_KEPT:
                self._shared.popitem(last=False)
        self._shared.move_to_end(key)
        return self._shared[key]

    def share(self, spec: TrialSpec, shared: SharedInputs) -> None:
        """Use existing inputs for trials like this one."""
        self._shared[_shared_key(spec)] = shared

    def checkpoints(self, spec: TrialSpec) -> Path | None:
        """Return where the trial keeps its state while it runs, so that a long one loses little when it is killed."""
        folder = self.materials.folder
        return None if folder is None else folder / "trials" / spec.id


def _shared_key(spec: TrialSpec) -> str:
    recipe = spec.recipe
    # Only new weights depend on the seed; otherwise all seeds share their inputs.
    drawn = recipe.seed if spec.surgery.get("reinitialise") else None
    surgery = spec.to_json()["surgery"]
    fields = [spec.encoder.revision, surgery, drawn, spec.task.to_json(), recipe.max_length, recipe.cache_dtype]
    return json.dumps(fields, sort_keys=True)
