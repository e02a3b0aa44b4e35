"""Where trials run: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass

from frostline.errors import OptionError
from frostline.records._json import Number, Record


@dataclass(frozen=True, kw_only=True)
class Compute(Record):
    """Where trials run; the results do not depend on it.

    Args:
        workers: processes of this machine that run trials at the same time; 1 runs them in this process.
        on: 'ray' to start Ray on this machine, or the address of a Ray cluster; None to use processes of this machine.
        cpus_per_trial: CPUs per trial on Ray.
        gpus_per_trial: GPUs per trial on Ray.
        device: device to compute on, such as 'cpu' or 'cuda'.

    Example:
        >>> frostline.Compute(workers=2).leaves_this_process
        True
    """

    workers: int = 1
    on: str | None = None
    cpus_per_trial: Number = 1
    gpus_per_trial: Number = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 1:
            raise OptionError(f"`workers={self.workers!r}`: must be a whole number, 1 or more")
        if self.on is not None and self.workers > 1:
            raise OptionError(
                "`workers`: are processes of this machine; with `on`, `cpus_per_trial` decides how many fit"
            )
        if self.on is None and (self.cpus_per_trial, self.gpus_per_trial) != (1, 0):
            raise OptionError(
                "`cpus_per_trial` and `gpus_per_trial`: are for trials on Ray; give `on`, or the `device`"
            )
        if self.cpus_per_trial < 0 or self.gpus_per_trial < 0 or self.cpus_per_trial + self.gpus_per_trial == 0:
            raise OptionError(
                f"`cpus_per_trial={self.cpus_per_trial:g}`, `gpus_per_trial={self.gpus_per_trial:g}`: a trial needs "
                "something to run on"
            )

    @property
    def leaves_this_process(self) -> bool:
        """Whether other processes run the trials, and load the encoders themselves."""
        return self.workers > 1 or self.on is not None
