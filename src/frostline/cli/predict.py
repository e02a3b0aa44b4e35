"""`frostline predict`: what a tuned model says of new texts."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from frostline.cli._shared import groups, options, screen
from frostline.cli._shared.flags import with_flags

if TYPE_CHECKING:
    from frostline.prediction.predict import Predictions

_SUFFIXES = (".csv", ".jsonl")


def command(
    *,
    folder: options.TunedFolder,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Texts: CSV, TSV, JSON lines, JSON, Parquet; plain or .gz. No labels needed."
        ),
    ],
    text: options.Text = None,
    text_pair: options.TextPair = None,
    choices: options.Choices = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="File to write to, .csv or .jsonl.", show_default="CSV on standard output"),
    ] = None,
    model: options.Base = None,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Predict the labels of texts with a tuned model: a run's folder, its model folder, or any stock classifier."""
    if output is not None:
        from frostline.files.output_folder import check_file

        check_file(output, "output", _SUFFIXES)
    with screen.starting():
        from frostline.prediction.loading import load_tuned
        from frostline.prediction.predict import predict_rows
        from frostline.tasks.unlabelled import read_unlabelled
    device = machine.use()
    with screen.waiting("reading the data"):
        rows, notes = read_unlabelled(file, text=text, text_pair=text_pair, choices=choices)
    with screen.waiting("loading the model"):
        loaded = load_tuned(folder, encoder=model, device=device)
    with screen.stages() as progress:
        found = predict_rows(loaded, rows, notes, is_pair_guessed=text_pair is None, progress=progress)
    for note in () if screen.is_quiet() else found.notes:
        print(f"note: {with_flags(note)}", file=sys.stderr)
    if output is not None:
        with output.open("w", encoding="utf-8", newline="") as stream:
            (_write_lines if output.suffix == ".jsonl" else _write_csv)(found, stream)
    if as_json:
        screen.print_json(
            {"kind": "predictions", "labels": list(found.label_names), "rows": [row.to_json() for row in found.rows]}
        )
    elif output is None:
        _write_csv(found, sys.stdout)


def _write_lines(found: Predictions, stream: TextIO) -> None:
    for row in found.rows:
        stream.write(json.dumps(row.to_json(), ensure_ascii=False, allow_nan=False) + "\n")


def _write_csv(found: Predictions, stream: TextIO) -> None:
    """One line per text, with a column for the probability of every label."""
    rows = [row.to_json() for row in found.rows]
    names = list(dict.fromkeys(name for row in found.rows for name in row.probabilities or ()))
    inputs = [name for name in rows[0] if name not in ("prediction", "probabilities")]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*inputs, "prediction", *(f"probability_{name}" for name in names)])
    for row in rows:
        shares = row["probabilities"] or {}
        writer.writerow(
            [*(_cell(row, name) for name in inputs), row["prediction"], *(_share(shares.get(n)) for n in names)]
        )


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _cell(row: Mapping[str, Any], name: str) -> Any:
    return json.dumps(row[name], ensure_ascii=False) if isinstance(row[name], list) else row[name]
