"""What trials are made from: encoders and tasks, loaded in every process that runs some."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.encoders.surgery import operate
from frostline.errors import EncoderError
from frostline.records import TrialSpec
from frostline.tasks import Task
from frostline.training.shared_inputs import Report, Workshop

_WORKSHOPS = 4  # kept at a time: each holds an encoder, tokens and open frozen states


@dataclass(frozen=True, kw_only=True)
class Materials:
    """Where the encoders and tasks of trials come from; small enough to be handed to other processes.

    Args:
        encoders: by revision, what `load_encoder` takes.
        tasks: by fingerprint.
        folder: where trials keep their state while they run; None where nothing outlives the process.
        cache: keep frozen states on disk.
        device: where to compute.
    """

    encoders: Mapping[str, str | None]
    tasks: Mapping[str, Task]
    folder: Path | None = None
    cache: bool = True
    device: str = "cpu"


@dataclass(kw_only=True)
class Bench:
    """A process's own encoders and workshops, made when a trial first needs them.

    Args:
        materials: where they come from.
        encoders: those that are loaded, by revision.
        report: told how far the trial that runs is.
    """

    materials: Materials
    encoders: dict[str, Encoder] = field(default_factory=dict)
    report: Report = lambda what, done, total: None
    _workshops: OrderedDict[str, Workshop] = field(default_factory=OrderedDict)

    def encoder(self, revision: str) -> Encoder:
        """The encoder as it was pretrained."""
        if revision not in self.encoders:
            found = load_encoder(self.materials.encoders[revision], device=self.materials.device)
            if found.revision != revision:
                raise EncoderError(f"{found.name}: is not the model that the study began with; its files have changed")
            self.encoders[revision] = found
        return self.encoders[revision]

    def task(self, spec: TrialSpec) -> Task:
        """The trial's task."""
        return self.materials.tasks[spec.task.fingerprint]

    def workshop(self, spec: TrialSpec) -> Workshop:
        """The workshop of the trial's encoder, after surgery, and task."""
        recipe, revision = spec.recipe, spec.encoder.revision
        # Only new weights depend on the seed; a workshop serves all seeds otherwise.
        drawn = recipe.seed if spec.surgery.get("reinitialise") else None
        said = [revision, spec.to_json()["surgery"], drawn, spec.task.to_json(), recipe.max_length, recipe.cache_dtype]
        key = json.dumps(said, sort_keys=True)
        if key in self._workshops:
            self._workshops.move_to_end(key)
        else:
            self._workshops[key] = Workshop(
                operate(self.encoder(revision), spec.surgery, seed=recipe.seed),
                self.task(spec),
                max_length=recipe.max_length,
                dtype=recipe.cache_dtype,
                keep=self.materials.cache,
                report=self.report,
            )
            while len(self._workshops) > _WORKSHOPS:
                self._workshops.popitem(last=False)
        return self._workshops[key]

    def place(self, spec: TrialSpec) -> Path | None:
        """Where the trial keeps its state while it runs, so that a long one that is stopped loses little."""
        folder = self.materials.folder
        return None if folder is None else folder / "trials" / spec.id
