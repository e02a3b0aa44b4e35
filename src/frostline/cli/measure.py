"""`frostline measure`: a table of layers and scores with the best layers marked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frostline.cli._shared import groups, options, screen

if TYPE_CHECKING:
    from frostline.records import LayerScore, LayerScores


class PoolingChoice(StrEnum):
    """How a text's tokens become one vector."""

    mean = "mean"
    first = "first"
    all = "all"
    released = "released"


class RowsChoice(StrEnum):
    """Which split is measured."""

    train = "train"
    validation = "validation"
    test = "test"


@dataclass(frozen=True, kw_only=True)
class MeasureFlags:
    """What is measured, and on which rows."""

    scores: Annotated[
        str, typer.Option(help="Layer scores, as in variability,cca; or default; or all. See `--list-scores`.")
    ] = "default"
    pooling: Annotated[
        PoolingChoice,
        typer.Option(
            help="One vector per text: the mean of all tokens but the first, the first one, all of them, or those with "
            "ids above 2 as in paper 1's released script."
        ),
    ] = PoolingChoice.mean
    examples: Annotated[int, typer.Option(min=2, help="Rows to use at most, drawn in proportion.")] = 5000
    rows: Annotated[
        RowsChoice, typer.Option(help="Which rows; a model that was tuned on the training rows needs others.")
    ] = RowsChoice.train
    intervals: Annotated[bool, typer.Option(help="Find 95% intervals.")] = True
    stream: Annotated[
        bool, typer.Option("--stream", help="Keep sums and no states: for any number of rows, without intervals.")
    ] = False
    nulls: Annotated[
        str | None,
        typer.Option(help="What chance gives, for comparison: shuffled, random or both, as in shuffled,random."),
    ] = None
    max_length: options.MaxLength = None
    seed: options.Seed = 0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `measure`; refuse unknown scores."""
        from frostline.scoring.scores import LAYER_SCORES

        names = self.scores if self.scores in ("default", "all") else _split(self.scores)
        for name in names if isinstance(names, list) else ():
            LAYER_SCORES[name]
        return {
            "scores": names,
            "pooling": self.pooling.value,
            "examples": self.examples,
            "rows": self.rows.value,
            "max_length": self.max_length,
            "uncertainty": self.intervals,
            "stream": self.stream,
            "nulls": _split(self.nulls or ""),
            "seed": self.seed,
        }


def _split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")] if words else []


def command(
    *,
    data: groups.DataOptions,
    encoder: groups.EncoderOptions,
    list_scores: Annotated[bool, typer.Option("--list-scores", help="Explain the layer scores and stop.")] = False,
    how: MeasureFlags,
    machine: groups.MachineOptions,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Folder to write scores.json and frostline.json to.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Score every layer of an encoder for a task, before any training.

    Prints, per layer, how far it is already specialised in the task by several scores, and marks the best layer of each
    and those that cannot be told apart from it. With no arguments it measures a small encoder on movie-review snippets.
    """
    if list_scores:
        _list_scores(as_json)
        return
    with screen.starting():
        from frostline.api._measure import measure
        from frostline.files import output_folder
        from frostline.files.provenance import folder_info
    arguments = how.arguments()
    device = machine.use()
    if save is not None:
        output_folder.check_new(save)
    task = data.load_task(seed=how.seed)
    loaded = encoder.load(device)
    with screen.stages() as progress:
        found = measure(loaded, task, progress=progress, **arguments)
    if save is not None:
        info = folder_info("measurement", seed=how.seed)
        output_folder.write(save, info, {"scores.json": found.to_json()})
    if as_json:
        screen.print_json(found.to_json())
    else:
        _show(found)


def _list_scores(as_json: bool) -> None:
    with screen.starting():
        from frostline.scoring.scores import LAYER_SCORES
        from frostline.scoring.selection import DEFAULT_SCORES

    rows = [
        {
            "name": name,
            "default": name in DEFAULT_SCORES,
            "better": score.better,
            "needs": score.needs,
            "paper": score.paper,
            "summary": score.summary,
        }
        for name, score in LAYER_SCORES.items()
    ]
    if as_json:
        screen.print_json({"scores": rows})
        return
    lines = [[("* " if row["default"] else "  ") + str(row["name"]), str(row["summary"])] for row in rows]
    screen.out().print(screen.table(["  score", "what it says"], lines))
    screen.out().print("\n* computed by default")


_POOLED = {
    "mean": "each text is the mean of its tokens but the first",
    "first": "each text is its first token",
    "all": "each text is the mean of all its tokens",
    "released": "each text is the mean of its tokens with an id above 2",
}


def _show(found: LayerScores) -> None:
    from frostline.scoring.tables import scores_table

    console, task, table = screen.out(), found.task, scores_table(found)
    console.print(table.title, style="bold", markup=False)
    asked = {
        "classification": f", classes {', '.join(task.labels)}",
        "multiple choice": " (a question with one of its choices, right or wrong)",
        "regression": "",
    }[task.kind]
    console.print(f"{found.examples:,} {found.rows} texts{asked}; {_POOLED[found.pooling]}\n", markup=False)
    # Marks stand in a column of their own, so that numbers are right below each other.
    lines = [[cell if cell[-1] in "◀~" else f"{cell}  " for cell in map(str, row)] for row in table.rows]
    console.print(screen.table(table.columns, lines, right=table.columns))
    for note in table.notes:
        console.print(f"\n{note}\n", markup=False)
    for score in found.scores.values():
        console.print(_finding(score))
    for one in found.agreement:
        console.print(
            f"{one.score} and {one.probe} over {one.layers} layers: "
            f"Pearson {one.pearson:+.2f}, Spearman {one.spearman:+.2f}"
        )
    for note in found.notes:
        console.print(f"note: {note}", style="dim", markup=False)


def _finding(score: LayerScore) -> str:
    from frostline.records.layer_ranges import name_layers

    if score.best is None:
        return f"{score.name}: undefined at every layer."
    others = [layer for layer in score.tied if layer != score.best]
    chance = "" if score.probability is None else f" (probability {score.probability[score.best]:.2f})"
    tied = f"; {name_layers(others)} cannot be told apart from it" if others else ""
    return f"{score.name}: layer {score.best} is the best{chance}{tied}."
