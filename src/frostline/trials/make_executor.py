"""The executor that a user asks for: this process, several processes, or Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError
from frostline.records.compute import Compute
from frostline.trials.context import Context, Materials
from frostline.trials.executors import Executor, Here, Processes

MakeExecutor = Callable[[Materials, Context], Executor]


def make_executor(compute: Compute, materials: Materials, context: Context) -> Executor:
    """Return the executor that a user asks for.

    Args:
        compute: number of workers, or Ray.
        materials: sources of encoders and tasks, for other processes.
        context: this process's encoders and tasks.
    """
    if compute.on is not None:
        from frostline.trials.ray_executor import OnRay

        address = None if compute.on == "ray" else compute.on
        return OnRay(materials, address=address, cpus=compute.cpus_per_trial, gpus=compute.gpus_per_trial)
    if compute.workers > 1:
        return Processes(materials, compute.workers)
    return Here(context)


def source_of(encoder: Encoder | str | Path | None, loaded: Encoder) -> str | None:
    """Return where other processes and machines load the encoder from; refuse one that exists in memory only.

    Args:
        encoder: the user's argument.
        loaded: the loaded encoder.
    """
    source = loaded.folder if isinstance(encoder, Encoder) else encoder
    if isinstance(encoder, Encoder) and source is None:
        raise OptionError(f"{loaded.name}: was changed or made in memory; save it, then pass its folder")
    if source is None:
        return None
    return str(Path(source).absolute()) if Path(source).is_dir() else str(source)
