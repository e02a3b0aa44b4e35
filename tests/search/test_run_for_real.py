"""Whole runs on the real encoder and real texts, killed and interrupted at any moment: nothing is lost."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from frostline.tasks import load_task
from frostline.tasks.splits import sample

pytestmark = [pytest.mark.slow, pytest.mark.embedded, pytest.mark.timeout(3600)]


def command(data, output, *, epochs=1):
    return frostline("run", data, "--output", output, "--epochs", epochs, "--threads", 1, "--json")


def frostline(*arguments):
    return [sys.executable, "-c", "from frostline.cli import main; main()", *map(str, arguments)]


def write_reviews(tmp_path, count):
    """A CSV file of film reviews."""
    rows = sample(load_task("movies").train, count, seed=3)
    path = tmp_path / "movies.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(zip(rows.texts, ("bad" if label == 0 else "good" for label in rows.labels), strict=True))
    return path


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


def test_a_run_that_was_killed_again_and_again_ends_like_one_that_was_not(tmp_path):
    data = write_reviews(tmp_path, 240)  # so few that plans are judged in folds
    # States that a killed run has kept would be there for the other one too; each has its own place.
    settings = {**os.environ, "FROSTLINE_CACHE": str(tmp_path / "another")}
    began = time.monotonic()
    whole = subprocess.run(command(data, tmp_path / "whole"), env=settings, capture_output=True, check=True)
    duration = time.monotonic() - began
    settings["FROSTLINE_CACHE"] = str(tmp_path / "cache")
    kills, printed = 0, ""
    for share in (0.3, 0.5, 0.6, 0.6, 0.6, 1000):  # the work that a killed run has done shortens the next one
        with subprocess.Popen(
            command(data, tmp_path / "killed"), env=settings, stdout=subprocess.PIPE, text=True
        ) as running:
            try:
                printed, _ = running.communicate(timeout=share * duration)
                break
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGKILL)
                kills += 1
    assert kills >= 2, (kills, duration)
    assert what_was_found(printed) == what_was_found(whole.stdout)
    weights = [tmp_path / name / "model" / "model.safetensors" for name in ("killed", "whole")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_run_that_is_interrupted_at_any_moment_leaves_a_model_or_says_that_none_was_ready(tmp_path):
    data = write_reviews(tmp_path, 400)  # enough for validation rows, a soup, a proof and a refit
    settings = {**os.environ, "FROSTLINE_CACHE": str(tmp_path / "cache")}
    began = time.monotonic()
    subprocess.run(command(data, tmp_path / "whole", epochs=10), env=settings, capture_output=True, check=True)
    duration = time.monotonic() - began
    left = []
    for number, moment in enumerate(random.Random(0).uniform(0.5, duration) for _ in range(20)):
        folder = tmp_path / f"run-{number}"
        with subprocess.Popen(
            command(data, folder, epochs=10), env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as running:
            time.sleep(moment)
            running.send_signal(signal.SIGINT)
            _, message = running.communicate(timeout=120)
        assert running.returncode in (0, 130), (moment, message)
        if (folder / "model").exists():
            asked = subprocess.run(frostline("predict", folder, data, "--json"), env=settings, capture_output=True)
            assert len(json.loads(asked.stdout)["rows"]) == 400, (moment, message, asked.stderr)
            left.append("model")
        else:
            assert "Traceback" not in message
            assert message.endswith("frostline: interrupted\n"), (moment, message)
            left.append("message")
    print(f"{left.count('model')} models, {left.count('message')} messages; a whole run takes {duration:.0f} s")
    assert {*left} == {"model", "message"}  # moments on both sides of the first model
