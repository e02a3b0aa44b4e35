"""Side-by-side timing: both sides in one process, taking turns, with the same threads."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def race(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """Median seconds of ours, of theirs, and the median over rounds of theirs / ours.

    The two take turns, and who goes first alternates, so that a machine that slows down slows both. With one thread,
    `time.process_time` as the clock leaves out what other programs take.
    """
    ours()
    theirs()
    our_seconds, their_seconds, ratios = [], [], []
    for turn in range(rounds):
        times = {}
        for name, run in (("ours", ours), ("theirs", theirs))[:: 1 if turn % 2 else -1]:
            started = clock()
            run()
            times[name] = clock() - started
        our_seconds.append(times["ours"])
        their_seconds.append(times["theirs"])
        ratios.append(times["theirs"] / times["ours"])
    return statistics.median(our_seconds), statistics.median(their_seconds), statistics.median(ratios)


def take_turns(
    arms: dict[str, Callable[[], object]], *, rounds: int = 3, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of every arm in every round; all arms run once in a round, every other round in reverse order."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(rounds):
        for name in list(arms)[:: 1 if turn % 2 else -1]:
            started = clock()
            arms[name]()
            times[name].append(clock() - started)
    return times


def row(name: str, ours: float, theirs: float, ratio: float) -> None:
    """One line of a table: seconds of ours and theirs, and the ratio."""
    print(f"{name:58s} {ours:9.3f} s {theirs:9.3f} s {ratio:7.2f} x", flush=True)
