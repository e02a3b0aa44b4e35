"""Checkpoints of a training run: safetensors and JSON, whole or not at all, and checked before they are used.

A checkpoint is a folder with the weights that train, the optimizer's two moments, the best weights so far, and a
description that names the run it belongs to and the checksum of the rest. The two newest are kept, so that one that was
damaged does not lose the run.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from frostline.files.atomic import build_folder, read_json
from frostline.files.checksums import file_checksum

if TYPE_CHECKING:
    from frostline.training.model import Tunable

_TENSORS, _ABOUT = "state.safetensors", "state.json"
_KEPT = 2
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(kw_only=True)
class Progressed:
    """How far a run is."""

    step: int = 0  # steps done
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last evaluation
    loss_steps: int = 0
    since: int = 0  # evaluations since the best one
    is_over: bool = False  # stopped early
    depth: int | None = None  # the lowest layer that backward ran through
    updates: int = 0  # steps with a rate above 0
    best: dict[str, Any] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    def shown(self) -> str:
        """The last metric, for a progress line."""
        values = [
            f"{name[11:]} {value:.3f}"
            for name, value in (self.history or [{}])[-1].items()
            if name.startswith("validation_")
        ]
        return f", {values[0]}" if values else ""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A checkpoint that was read and is whole."""

    so_far: Progressed
    tensors: Mapping[str, Tensor]
    optimizer_step: float

    def restore(self, tunable: Tunable, optimizer: torch.optim.Optimizer) -> tuple[Progressed, dict[str, Tensor]]:
        """Put everything back, and give how far the run was and its best weights."""
        own = tunable.trainable()
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(self.tensors[f"weights/{name}"])
                optimizer.state[value] = {
                    "step": torch.tensor(self.optimizer_step),
                    **{moment: self.tensors[f"{moment}/{name}"].to(value.device).clone() for moment in _MOMENTS},
                }
        best = {
            name.removeprefix("best/"): value.clone()
            for name, value in self.tensors.items()
            if name.startswith("best/")
        }
        return self.so_far, best


class Checkpoints:
    """Where one run keeps its state."""

    def __init__(
        self,
        folder: Path,
        *,
        run: str,
        resume: bool,
        every_steps: int | None = None,
        every_seconds: float = 300,
        at_evaluations: bool = True,
    ) -> None:
        """Name the place.

        Args:
            folder: holds one folder per checkpoint.
            run: what identifies encoder, data, plan and recipe; checkpoints of another run are not used.
            resume: go on from the newest; else what is there is removed.
            every_steps: write one every so many steps.
            every_seconds: write one when so many seconds have gone by.
            at_evaluations: write one after every evaluation, too.
        """
        self.folder = folder
        self.run = run
        self.resume = resume
        self.every_steps = every_steps
        self.every_seconds = every_seconds
        self.at_evaluations = at_evaluations
        self._last = time.monotonic()
        if not resume:
            shutil.rmtree(folder, ignore_errors=True)

    def is_due(self, step: int, *, evaluated: bool) -> bool:
        """Whether to write one now."""
        if self.every_steps is not None and step % self.every_steps == 0:
            return True
        return (evaluated and self.at_evaluations) or time.monotonic() - self._last >= self.every_seconds

    def newest(self) -> Found | None:
        """The newest checkpoint of this run that is whole, or None."""
        if not self.resume:
            return None
        for path in self._newest_first():
            if (found := self._read(path)) is not None:
                return found
        return None

    def says(self) -> str:
        """Where the run goes on, in a sentence."""
        damaged = 0
        for path in self._newest_first():
            if (found := self._read(path)) is not None:
                newer = f" ({damaged} newer one{'s were' if damaged > 1 else ' was'} damaged)" if damaged else ""
                return f"going on after step {found.so_far.step}, from the newest whole checkpoint{newer}"
            damaged += 1
        why = "its checkpoints are damaged" if damaged else "there is no checkpoint yet"
        return f"starting from the beginning: {why}"

    def is_of_another_run(self) -> bool:
        """Whether there are checkpoints here to go on from, and they are of another run."""
        if not self.resume:
            return False
        runs = [run for path in self._folders() if (run := _run_of(path)) is not None]
        return bool(runs) and self.run not in runs

    def write(
        self, so_far: Progressed, tunable: Tunable, optimizer: torch.optim.Optimizer, best: Mapping[str, Tensor]
    ) -> None:
        """Write one, and remove all but the newest."""
        from safetensors.torch import save_file

        own = tunable.trainable()
        tensors = {f"weights/{name}": value.detach() for name, value in own.items()}
        for moment in _MOMENTS:
            tensors |= {f"{moment}/{name}": optimizer.state[value][moment] for name, value in own.items()}
        tensors |= {f"best/{name}": value for name, value in best.items()}
        with build_folder(self.folder / f"step-{so_far.step}", sync=True) as building:
            save_file({name: value.cpu().contiguous() for name, value in tensors.items()}, building / _TENSORS)
            about = {
                "run": self.run,
                "checksum": file_checksum(building / _TENSORS),
                "optimizer_step": float(optimizer.state[next(iter(own.values()))]["step"]),
                "so_far": asdict(so_far),
            }
            (building / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
        for old in sorted(self._folders(), key=_step_of)[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        self._last = time.monotonic()

    def _newest_first(self) -> list[Path]:
        return sorted(self._folders(), key=_step_of, reverse=True)

    def _folders(self) -> list[Path]:
        return list(self.folder.glob("step-*")) if self.folder.is_dir() else []

    def _read(self, path: Path) -> Found | None:
        from safetensors.torch import load_file

        try:
            about = read_json(path / _ABOUT)
            if about["run"] != self.run or about["checksum"] != file_checksum(path / _TENSORS):
                return None
            return Found(
                so_far=Progressed(**about["so_far"]),
                tensors=load_file(path / _TENSORS),
                optimizer_step=about["optimizer_step"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _run_of(path: Path) -> str | None:
    try:
        return str(read_json(path / _ABOUT)["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _step_of(path: Path) -> int:
    number = path.name.removeprefix("step-")
    return int(number) if number.isdigit() else -1
