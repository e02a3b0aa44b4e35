"""`frostline predict`: the predictions of a tuned model for new texts."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from frostline.cli._shared import groups, options, screen
from frostline.cli._shared.flags import with_flags

_SUFFIXES = (".csv", ".jsonl")


def command(
    *,
    folder: options.TunedFolder,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="File with texts: CSV, TSV, JSON lines, JSON, Parquet; plain or .gz. It needs no labels.",
        ),
    ],
    text: options.Text = None,
    text_pair: options.TextPair = None,
    choices: options.Choices = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Output file, .csv or .jsonl.", show_default="CSV on standard output"),
    ] = None,
    model: options.Base = None,
    machine: groups.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Predict the labels of new texts with a tuned model."""
    if output is not None:
        from frostline.files.output_folder import check_file

        check_file(output, "output", _SUFFIXES)
    with screen.starting():
        from frostline.prediction.export import write_lines
        from frostline.prediction.loading import load_tuned
        from frostline.prediction.predict import predict_rows
        from frostline.tasks.unlabelled import read_unlabelled
    device = machine.use()
    with screen.waiting("reading the data"):
        rows, notes = read_unlabelled(file, text=text, text_pair=text_pair, choices=choices)
    with screen.waiting("loading the model"):
        loaded = load_tuned(folder, encoder=model, device=device)
    with screen.stages() as progress:
        predictions = predict_rows(loaded, rows, notes, is_pair_guessed=text_pair is None, progress=progress)
    for note in () if screen.is_quiet() else predictions.notes:
        print(f"note: {with_flags(note)}", file=sys.stderr)
    written = [row.to_json() for row in predictions.rows]
    if output is not None and output.suffix == ".jsonl":
        write_lines(output, written)
    elif output is not None:
        with output.open("w", encoding="utf-8", newline="") as stream:
            _write_csv(written, stream)
    if as_json:
        screen.print_json({"kind": "predictions", "labels": list(predictions.label_names), "rows": written})
    elif output is None:
        _write_csv(written, sys.stdout)


def _write_csv(rows: Sequence[Mapping[str, Any]], stream: TextIO) -> None:
    """Write one line per text, with a column for the probability of every label."""
    names = list(dict.fromkeys(name for row in rows for name in row["probabilities"] or ()))
    inputs = [name for name in rows[0] if name not in ("prediction", "probabilities")]
    columns = [*inputs, "prediction", *(f"probability_{name}" for name in names)]
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        cells = {name: _cell(row[name]) for name in (*inputs, "prediction")}
        shares = {f"probability_{name}": f"{value:.6g}" for name, value in (row["probabilities"] or {}).items()}
        writer.writerow({**cells, **shares})


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
