"""Trials as Ray tasks, on this machine or on a cluster; results stream back to the process that records them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from frostline.errors import OptionError, UserError
from frostline.records import TrialResult, TrialSpec
from frostline.trials.context import Context, Materials
from frostline.trials.executors import Finished
from frostline.trials.run_trial import failed, run_trial

_RETRIES = 3  # of a trial whose worker or node was lost
_PATIENCE = 10.0  # seconds until a cluster that does not answer is given up
_CONTEXTS: dict[str, Context] = {}  # of a worker process, by executor


class OnRay:
    """Runs trials as Ray tasks."""

    def __init__(self, materials: Materials, *, address: str | None = None, cpus: float = 1, gpus: float = 0) -> None:
        """Connect to a cluster, or start Ray on this machine.

        Args:
            materials: sources of encoders and tasks, sent to every node once.
            address: address of the cluster's head; None starts Ray on this machine, for this run alone.
            cpus: CPUs per trial.
            gpus: GPUs per trial.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:
            # Without it Ray uses the external address of this machine, whatever the options. Read at import.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        try:
            import ray
        except ImportError:
            message = "`on='ray'`: Ray is not installed; in a clone: pip install -c constraints.txt '.[ray]'"
            raise OptionError(message) from None
        if address is not None:
            _host_and_port(address)
        self.ray = ray
        # Checkpoints would be on the node that ran the trial, so a lost trial starts over; kept models can be read only
        # where the node is this machine.
        self.device = "cuda" if gpus else materials.device
        self.materials = replace(
            materials, folder=None, kept=materials.kept if address is None else None, device=self.device
        )
        self.address, self.cpus, self.gpus = address, cpus, gpus
        self._is_connected = self._was_there = False

    def run(self, specs: Iterable[TrialSpec], *, keep: bool = False) -> Iterator[Finished]:
        """Yield the trials with their results, each as soon as it is done."""
        fresh = iter(specs)
        first = next(fresh, None)
        if first is None:
            return  # nothing to run: no cluster is needed
        self._connect()
        queue = chain([first], fresh)
        task = self.ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=_RETRIES)(_run_on_node)
        waiting: dict[Any, TrialSpec] = {}
        while True:
            while len(waiting) < self._room() and (spec := next(queue, None)) is not None:
                waiting[task.remote(self._shared, self._name, spec.to_json(), keep)] = spec
            if not waiting:
                return
            (done,), _ = self.ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(done), self._result(done)

    def _room(self) -> int:
        """Return the number of trials that the cluster can run at once."""
        resources = self.ray.cluster_resources()  # type: ignore[no-untyped-call]
        room = [resources.get(name, 0) / per for name, per in (("CPU", self.cpus), ("GPU", self.gpus)) if per]
        return max(1, int(min(room)))

    def close(self) -> None:
        """Leave the cluster, unless the program had joined it before; end Ray where it was started here."""
        if self._is_connected and not self._was_there:
            self.ray.shutdown()
        self._is_connected = False

    def _connect(self) -> None:
        if self._is_connected:
            return
        if self.address is not None:
            _check_reachable(self.address)
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "ignore_reinit_error": True}
        if self.address is None:
            options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "num_cpus": os.cpu_count()}
        self._was_there = bool(self.ray.is_initialized())
        try:
            self.ray.init(address=self.address or "local", **options)  # without "local" it joins a running cluster
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UserError(f"`on={self.address or 'ray'!r}`: Ray cannot be reached ({reason})") from None
        self._is_connected = True
        self._check_room()
        self._shared = self.ray.put(self.materials)
        self._name = self._shared.hex()

    def _check_room(self) -> None:
        """Refuse a trial that fits on no node: Ray would wait for a larger one for ever."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        if any(node.get("CPU", 0) >= self.cpus and node.get("GPU", 0) >= self.gpus for node in nodes):
            return
        most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in ("CPU", "GPU")}
        raise UserError(
            f"`cpus_per_trial={self.cpus:g}`, `gpus_per_trial={self.gpus:g}`: no node of the cluster has that many; "
            f"the most on one node are {most['CPU']:g} CPUs and {most['GPU']:g} GPUs"
        )

    def _result(self, done: Any) -> TrialResult:
        try:
            return TrialResult.from_json(self.ray.get(done))
        except self.ray.exceptions.RayTaskError as error:  # not lost: a node cannot run trials at all
            cause = str(getattr(error, "cause", error)).strip().splitlines()[0]
            reason = f"a node could not run it: {cause}"
        except self.ray.exceptions.RayError as error:
            # Ray's message on a lost worker has many lines; its type is enough.
            reason = f"lost {_RETRIES + 1} times on the cluster: {type(error).__name__}"
        return failed(reason, "lost")


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit() and int(port) < 65536):
        raise OptionError(f"`on={address!r}`: must be ray, or the address of a cluster's head such as 10.0.0.5:6379")
    return host, int(port)


def _check_reachable(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself would try for minutes."""
    try:
        socket.create_connection(_host_and_port(address), timeout=_PATIENCE).close()
    except OSError as error:
        raise UserError(f"`on={address!r}`: no Ray cluster can be reached there ({error.strerror or error})") from None


def _run_on_node(materials: Materials, name: str, spec: dict[str, Any], keep: bool) -> dict[str, Any]:
    """Run a trial in a worker process, which keeps loaded encoders for the next trial."""
    if name not in _CONTEXTS:
        _CONTEXTS.clear()  # another executor's
        _CONTEXTS[name] = Context(materials=materials)
    return run_trial(_CONTEXTS[name], TrialSpec.from_json(spec), keep=keep).to_json()
