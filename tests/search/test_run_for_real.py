"""A whole run on the real encoder and real texts, killed again and again: the result is that of one that never was."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from frostline.tasks import load_task
from frostline.tasks.splits import sample

pytestmark = [pytest.mark.slow, pytest.mark.embedded, pytest.mark.timeout(1800)]


def command(data, output):
    code = "from frostline.cli import main; main()"
    arguments = ["run", str(data), "--output", str(output), "--epochs", "1", "--threads", "1", "--json"]
    return [sys.executable, "-c", code, *arguments]


def what_was_found(text):
    """The result without what depends on the clock: seconds, and the costs that were estimated from them."""
    found = json.loads(text)
    for entry in (one for rung in found["race"] for one in rung):
        del entry["seconds"]
    for key in ("seconds", "proposals", "folder"):
        del found[key]
    took = re.compile(r"\([\d.]+ s vs [\d.]+ s\)")
    assert all(took.search(line) for line in found["given_up"])
    found["given_up"] = [took.sub("(its time)", line) for line in found["given_up"]]
    return found


def test_a_run_that_was_killed_five_times_ends_like_one_that_was_not(tmp_path):
    rows = sample(load_task("movies").train, 240, seed=3)
    data = tmp_path / "movies.csv"
    with data.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(zip(rows.texts, ("bad" if label == 0 else "good" for label in rows.labels), strict=True))
    # States that a killed run has kept would be there for the other one too; each has its own place.
    settings = {**os.environ, "FROSTLINE_CACHE": str(tmp_path / "cache")}
    for seconds in (6, 15, 20, 25, 30):
        with subprocess.Popen(command(data, tmp_path / "killed"), env=settings, stdout=subprocess.DEVNULL) as running:
            time.sleep(seconds)
            running.send_signal(signal.SIGKILL)
    killed = subprocess.run(command(data, tmp_path / "killed"), env=settings, capture_output=True, check=True)
    settings["FROSTLINE_CACHE"] = str(tmp_path / "another")
    whole = subprocess.run(command(data, tmp_path / "whole"), env=settings, capture_output=True, check=True)
    assert what_was_found(killed.stdout) == what_was_found(whole.stdout)
    weights = [tmp_path / name / "model" / "model.safetensors" for name in ("killed", "whole")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
