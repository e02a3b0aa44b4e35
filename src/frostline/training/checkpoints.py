"""Checkpoints of a training run: safetensors and JSON, written atomically and verified before use.

A checkpoint is a folder with the weights that train and the optimizer's two moments, of every member of a soup, the
best weights so far, the average where there is one, and a description with the identity of the run and the checksum of
the tensors. The two newest are kept, so that a damaged one does not lose the run.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from frostline.files.atomic import build_folder, read_json
from frostline.files.checksums import file_checksum
from frostline.training.members import SoupMember
from frostline.training.model import Tunable

_TENSORS, _ABOUT = "state.safetensors", "state.json"
_KEPT = 2
_EVERY_SECONDS = 300  # between checkpoints, whatever the steps
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(kw_only=True)
class Progressed:
    """The progress of a run: what a checkpoint holds besides tensors."""

    step: int = 0  # steps done
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last evaluation
    loss_steps: int = 0
    since: int = 0  # evaluations since the best one
    is_over: bool = False  # early stopping has ended the run
    depth: int | None = None  # the lowest layer that backward ran through
    updates: int = 0  # steps with a rate above 0
    best: dict[str, Any] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    def shown(self) -> str:
        """Return the latest validation metric, for a progress line."""
        values = [
            f"{name[11:]} {value:.3f}"
            for name, value in (self.history or [{}])[-1].items()
            if name.startswith("validation_")
        ]
        return f", {values[0]}" if values else ""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint that was read and verified."""

    so_far: Progressed
    tensors: Mapping[str, Tensor]
    optimizer_step: float

    def restore(
        self, tunable: Tunable, members: Sequence[SoupMember]
    ) -> tuple[Progressed, dict[str, Tensor], dict[str, Tensor]]:
        """Load weights and optimizers; return the progress of the run, its best weights and its average."""
        for number, member in enumerate(members):
            start = _start_of(number)
            for name, value in tunable.trainable().items():
                member.weights[name].copy_(self.tensors[f"{start}weights/{name}"])
                moments = {moment: self.tensors[f"{start}{moment}/{name}"] for moment in _MOMENTS}
                member.optimizer.state[value] = {
                    "step": torch.tensor(self.optimizer_step),
                    **{moment: own.to(value.device).clone() for moment, own in moments.items()},
                }
        return self.so_far, self._group("best"), self._group("average")

    def _group(self, name: str) -> dict[str, Tensor]:
        start = f"{name}/"
        return {key.removeprefix(start): own.clone() for key, own in self.tensors.items() if key.startswith(start)}


class Checkpoints:
    """The checkpoints of one run, in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        run: str,
        resume: bool,
        every_steps: int | None = None,
        at_evaluations: bool = True,
        at_end: bool = False,
    ) -> None:
        """Open the folder; without `resume`, remove what it holds.

        Args:
            folder: holds one folder per checkpoint.
            run: identity of encoder, data, plan and recipe; checkpoints of another run are ignored.
            resume: continue from the newest checkpoint instead of removing all.
            every_steps: steps between checkpoints.
            at_evaluations: also write a checkpoint after every evaluation.
            at_end: also write one after the last step, for a longer run that goes on from there.
        """
        self.folder = folder
        self.run = run
        self.resume = resume
        self.every_steps = every_steps
        self.at_evaluations = at_evaluations
        self.at_end = at_end
        self._last = time.monotonic()
        if not resume:
            shutil.rmtree(folder, ignore_errors=True)

    def is_due(self, step: int, *, evaluated: bool, is_last: bool = False) -> bool:
        """Whether to write a checkpoint now."""
        if is_last and self.at_end:
            return True
        if self.every_steps is not None and step % self.every_steps == 0:
            return True
        return (evaluated and self.at_evaluations) or time.monotonic() - self._last >= _EVERY_SECONDS

    def newest(self) -> tuple[Checkpoint | None, int]:
        """Return the newest intact checkpoint of this run, or None, and the number of damaged newer ones."""
        folders = self._folders()
        for damaged, path in enumerate(reversed(folders)):
            if (checkpoint := self._read(path)) is not None:
                return checkpoint, damaged
        return None, len(folders)

    def where_it_continues(self) -> str:
        """Return a sentence on where the run continues."""
        checkpoint, damaged = self.newest()
        if checkpoint is None:
            why = "its checkpoints are damaged" if damaged else "there is no checkpoint yet"
            return f"starting from the beginning: {why}"
        newer = f" ({damaged} newer one{'s were' if damaged > 1 else ' was'} damaged)" if damaged else ""
        return f"continuing after step {checkpoint.so_far.step}, from the newest intact checkpoint{newer}"

    def is_of_another_run(self) -> bool:
        """Whether there are checkpoints to continue from, and they belong to another run."""
        descriptions = [read_json(path / _ABOUT, default=None) for path in self._folders()]
        runs = [about["run"] for about in descriptions if isinstance(about, dict) and "run" in about]
        return bool(runs) and self.run not in runs

    def write(
        self,
        so_far: Progressed,
        tunable: Tunable,
        members: Sequence[SoupMember],
        *,
        best: Mapping[str, Tensor],
        average: Mapping[str, Tensor],
    ) -> None:
        """Write a checkpoint, and remove all but the newest two."""
        from safetensors.torch import save_file

        own = tunable.trainable()
        tensors: dict[str, Tensor] = {}
        for number, member in enumerate(members):
            start = _start_of(number)
            tensors |= {f"{start}weights/{name}": value for name, value in member.weights.items()}
            for moment in _MOMENTS:
                states = {name: member.optimizer.state[value] for name, value in own.items()}
                tensors |= {f"{start}{moment}/{name}": state[moment] for name, state in states.items()}
        tensors |= {f"best/{name}": value for name, value in best.items()}
        tensors |= {f"average/{name}": value for name, value in average.items()}
        with build_folder(self.folder / f"step-{so_far.step}", sync=True) as building:
            save_file({name: value.cpu().contiguous() for name, value in tensors.items()}, building / _TENSORS)
            about = {
                "run": self.run,
                "checksum": file_checksum(building / _TENSORS),
                "optimizer_step": float(members[0].optimizer.state[next(iter(own.values()))]["step"]),
                "so_far": asdict(so_far),
            }
            (building / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
        for old in self._folders()[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        self._last = time.monotonic()

    def _folders(self) -> list[Path]:
        """Return the folders of checkpoints, oldest first."""
        return sorted(self.folder.glob("step-*"), key=_step_of)

    def _read(self, path: Path) -> Checkpoint | None:
        from safetensors.torch import load_file

        try:
            about = read_json(path / _ABOUT)
            if about["run"] != self.run or about["checksum"] != file_checksum(path / _TENSORS):
                return None
            return Checkpoint(
                so_far=Progressed(**about["so_far"]),
                tensors=load_file(path / _TENSORS),
                optimizer_step=about["optimizer_step"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _start_of(number: int) -> str:
    """Return what the names of a member's tensors start with; those of a single model have always had none."""
    return f"member-{number}/" if number else ""


def _step_of(path: Path) -> int:
    number = path.name.removeprefix("step-")
    return int(number) if number.isdigit() else -1
