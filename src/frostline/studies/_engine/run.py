"""Run a study: its missing trials, until there are none, and then its tables."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from frostline.encoders.encoder import Encoder
from frostline.files import atomic, output_folder
from frostline.files.provenance import folder_info
from frostline.kernels.device import computing
from frostline.progress import Progress, Step, logger
from frostline.records import LayerScores, Recipe, TrialResult, TrialSpec
from frostline.records.display import as_html
from frostline.records.study import StudyOutcome, StudyProgress, StudySpec
from frostline.records.table import Table
from frostline.records.trial import FAILURE_CAUSES
from frostline.scoring.measurement import EXAMPLES, MeasureOptions, measure_layers
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import Rows
from frostline.states.pooled import Pooling
from frostline.studies import Ask, Measured, Point, Study
from frostline.studies._engine.results import PROGRESS, STORE, TABLES_FILE
from frostline.studies._tables import notes_on_all
from frostline.tasks import Task
from frostline.training.shared_inputs import SharedInputs
from frostline.trials.executors import Executor
from frostline.trials.run_missing import by_shared_states, run_missing
from frostline.trials.store import Store
from frostline.trials.time_estimate import expected_seconds, in_words

TABLES, SCORES, TRIALS = "tables", "scores", "trials"


@dataclass(frozen=True, kw_only=True)
class Studied:
    """The results of a study.

    Args:
        study: the study.
        folder: folder of the study.
        points: all trials with their labels and results.
        tables: the study's tables.
        failed: one line for each failed trial.
    """

    study: Study
    folder: Path
    points: tuple[Measured, ...] = ()
    tables: tuple[Table, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def record(self) -> StudyOutcome:
        """The outcome as printed as JSON and shown in notebooks."""
        return StudyOutcome(
            study=self.study.name,
            question=self.study.question,
            folder=str(self.folder),
            trials=len({point.spec.id for point in self.points}),
            failed=self.failed,
            tables=self.tables,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values."""
        return self.record.to_json()

    def _repr_html_(self) -> str | None:
        return as_html(self.record)


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """A study with everything that it needs to run."""

    study: Study
    options: Mapping[str, Any]
    folder: Path
    encoders: tuple[Encoder, ...]
    tasks: tuple[Task, ...]
    seeds: int
    rows: int | None
    recipe: Recipe
    margin: float
    given: frozenset[str]
    device: str
    workers: int | None
    estimate: bool
    dry_run: bool
    progress: Progress

    def specification(self) -> StudySpec:
        """Return the specification that the study's folder keeps."""
        return StudySpec(
            study=self.study.name,
            encoders={encoder.name: encoder.revision for encoder in self.encoders},
            tasks={task.name: (task.fingerprint, *task.metrics) for task in self.tasks},
            seeds=self.seeds,
            rows=self.rows,
            options=self.options,
            recipe=self.recipe,
            given=tuple(sorted(self.given & self.study.varies)),
            protocol="paper" if any(task.protocol == "paper" for task in self.tasks) else "held-out",
            device=self.device,
            families={encoder.name: encoder.family.name for encoder in self.encoders},
        )

    def run(self, executor: Executor, *, retry_failed: bool) -> Studied:
        """Run all missing trials, then write and return the tables."""
        with Store(self.folder / STORE) as store:
            ask = Ask(
                encoders=self.encoders,
                tasks=self.tasks,
                seeds=self.seeds,
                rows=self.rows,
                recipe=self.recipe,
                known=store.get,
                scores=self._scores,
                margin=self.margin,
                given=self.given,
            )
            retried: set[str] = set()
            while True:
                points = _without_duplicates(self.study.trials(ask, **self.options))
                specs = {point.spec.id: point.spec for point in points}
                results = {name: store.get(spec) for name, spec in specs.items()}
                missing = [
                    specs[name] for name, result in results.items()
                    if result is None or (result.status == "failed" and retry_failed and name not in retried)
                ]  # fmt: skip
                if not missing:
                    break
                expected = self._predict_later(ask, specs)
                later = [spec for spec in expected if store.get(spec) is None]
                follow = f", {len(later)} will follow from their results" if later else ""
                estimate = self._estimate([*missing, *later])
                logger.info("%d of %d trials to run%s%s", len(missing), len(specs), follow, estimate)
                if self.dry_run:
                    return Studied(study=self.study, folder=self.folder)
                total = len(specs) + len(expected)
                done = total - len(missing) - len(later)
                self._run(store, missing, executor, done=done, total=total)
                retried |= {spec.id for spec in missing}
            self.progress(Step(stage="making the tables"))
            measured = tuple(_measured(point, store) for point in points)
            notes = notes_on_all(ask, measured)
            tables = tuple(replace(table, notes=(*table.notes, *notes)) for table in self.study.tables(ask, measured))
        self._write(tables)
        shutil.rmtree(self.folder / TRIALS, ignore_errors=True)
        (self.folder / PROGRESS).unlink(missing_ok=True)
        failed = {
            point.spec.id: f"{point['encoder']}, {point['task']}, {point['arm']}, seed {point['seed']}: "
            f"{point.result.reason}"
            for point in measured
            if not point.is_done
        }
        return Studied(
            study=self.study, folder=self.folder, points=measured, tables=tables, failed=tuple(failed.values())
        )

    def _predict_later(self, ask: Ask, now: Mapping[str, TrialSpec]) -> list[TrialSpec]:
        """Return the trials that will follow from the results of these, as if the first of each choice were best."""

        def known(spec: TrialSpec) -> TrialResult:
            made_up = TrialResult(status="done", metrics={"validation": dict.fromkeys(spec.task.metrics, 0.0)})
            return ask.known(spec) or made_up

        specs = {point.spec.id: point.spec for point in self.study.trials(replace(ask, known=known), **self.options)}
        return [spec for name, spec in specs.items() if name not in now]

    def _run(self, store: Store, missing: Sequence[TrialSpec], executor: Executor, *, done: int, total: int) -> None:
        started, before = time.monotonic(), done
        self.progress(Step(stage="trials", done=done, total=total))
        # A report can see that the process has ended.
        now = StudyProgress(done=done, total=total, process=os.getpid(), host=socket.gethostname())
        atomic.write_json(self.folder / PROGRESS, now.to_json())

        for _, result in run_missing(store, by_shared_states(missing), executor, retry=FAILURE_CAUSES):
            done += 1
            if result.status == "failed":
                logger.warning("a trial failed: %s", result.reason)
                logger.debug("%s", result.traceback or "(no traceback)")
            seconds_left = (time.monotonic() - started) / (done - before) * (total - done)
            now = replace(now, done=done, seconds_left=round(seconds_left))
            atomic.write_json(self.folder / PROGRESS, now.to_json())
            self.progress(Step(stage="trials", done=done, total=total))

    def _estimate(self, specs: Sequence[TrialSpec]) -> str:
        if not self.estimate:
            return ""
        self.progress(Step(stage="timing a few steps"))
        seconds = expected_seconds(
            specs,
            {encoder.revision: encoder for encoder in self.encoders},
            {task.fingerprint: task for task in self.tasks},
            tunings={kind.name: kind.tunings for kind in self.study.kinds},
        )
        words = in_words(*seconds, workers=max(1, min(self.workers or 1, len(specs))))
        return f": {words}" if self.workers else f": {words} of computing on a machine like this one"

    def _scores(
        self,
        encoder: Encoder,
        task: Task,
        names: Sequence[str],
        *,
        pooling: Pooling = "mean",
        rows: Rows = "train",
        examples: int = EXAMPLES,
    ) -> LayerScores:
        """Return scores that are measured once: plans that depend on them must not change when a study continues.

        Args:
            encoder: the encoder.
            task: the task.
            names: the scores.
            pooling: how a text's tokens become one vector.
            rows: the split whose rows are measured.
            examples: number of rows; 0 for all of them. Only scores that can be streamed take more than 5,000.
        """
        few = rows == "train" and self.rows is not None and self.rows < len(task.train)
        count, streamed = _rows_to_measure(task, names, examples, limit=self.rows)
        key = json.dumps([
            encoder.revision, task.fingerprint, sorted(names), self.recipe.max_length,
            *([self.rows] if few else []), *([pooling] if pooling != "mean" else []),
            *([{"rows": rows}] if rows != "train" else []),
            *([{"examples": count}] if count != EXAMPLES else []),  # 5,000 at most was all there was at first
        ])  # fmt: skip
        path = self.folder / SCORES / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
        if path.exists():
            return LayerScores.from_file(path)
        logger.info("measuring %s of %s on %s", ", ".join(names), encoder.name, task.name)
        if few:  # plans must not depend on rows that no trial may train on
            task = replace(task, train=task.train.take(SharedInputs(encoder, task).some_rows(self.rows or 0, seed=0)))
        with computing(threads=self.recipe.threads):  # the same plans on every machine
            options = MeasureOptions(
                scores=list(names),
                similarity=False,
                uncertainty=False,
                pooling=pooling,
                rows=rows,
                max_length=self.recipe.max_length,
                examples=count,
                stream=streamed,
            )
            scores = measure_layers(encoder, task, options, progress=self.progress)
        path.parent.mkdir(exist_ok=True)
        atomic.write_json(path, scores.to_json())
        return scores

    def _write(self, tables: Sequence[Table]) -> None:
        """Write the tables as CSV and JSON, and the folder's `frostline.json`."""
        (self.folder / TABLES).mkdir(exist_ok=True)
        for table in tables:
            atomic.write_text(self.folder / TABLES / f"{table.name}.csv", table.to_csv())
        info = folder_info("study", seeds=self.seeds, threads=self.recipe.threads)
        output_folder.write(self.folder, info, {TABLES_FILE: [table.to_json() for table in tables]})


def _rows_to_measure(task: Task, names: Sequence[str], examples: int, *, limit: int | None) -> tuple[int, bool]:
    """Return the largest number of rows that scores are measured on, and whether they are streamed.

    Without streaming it is 5,000 at most: the scores need the states of all rows at once. A question of multiple choice
    counts as many rows as it has choices.

    Args:
        task: the task.
        names: the scores.
        examples: number of rows; 0 for all training rows.
        limit: maximum number of training rows of a trial.
    """
    choices = max(map(len, task.train.choices)) if task.train.choices else 1
    available = choices * min(len(task.train), limit or len(task.train))
    count = examples or max(available, EXAMPLES)
    can_stream = task.kind != "regression" and all(LAYER_SCORES[name].from_moments is not None for name in names)
    return (count, True) if can_stream and min(count, available) > EXAMPLES else (min(count, EXAMPLES), False)


def _without_duplicates(points: Iterable[Point]) -> list[Point]:
    """Return each point once: an option that names the same thing twice must not count one seed as two."""
    unique: dict[str, Point] = {}
    for point in points:
        key = json.dumps([point.spec.id, point.labels, point.is_candidate], sort_keys=True, default=str)
        unique.setdefault(key, point)
    return list(unique.values())


def _measured(point: Point, store: Store) -> Measured:
    result = store.get(point.spec)
    assert result is not None  # noqa: S101 (all missing trials have just run)
    return Measured(spec=point.spec, labels=point.labels, is_candidate=point.is_candidate, result=result)
