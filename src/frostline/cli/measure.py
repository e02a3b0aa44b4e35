"""`frostline measure`: a table of layers and scores with the best layers marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from frostline.cli._shared import groups, options, screen
from frostline.errors import OptionError
from frostline.options import parse_options
from frostline.records import LayerScore, LayerScores
from frostline.records.layer_ranges import name_layers


@dataclass(frozen=True, kw_only=True)
class MeasureFlags:
    """What is measured, and on which rows."""

    scores: Annotated[
        str, typer.Option(help="Layer scores, as in variability,cca; or 'default', or 'all'. See `--list-scores`.")
    ] = "default"
    pooling: Annotated[
        Literal["mean", "first", "all", "released"],
        typer.Option(
            help="One vector per text: the mean of all tokens but the first, the first token, the mean of all tokens, "
            "or of tokens with ids above 2 as in the script of Xie et al. (2022)."
        ),
    ] = "mean"
    examples: Annotated[int, typer.Option(min=2, help="Most rows to use; a stratified sample if there are more.")] = (
        5000
    )
    rows: Annotated[
        Literal["train", "validation", "test"],
        typer.Option(help="Split to measure on; not train if the model was tuned on it."),
    ] = "train"
    judged_on: Annotated[
        Literal["validation", "test"] | None,
        typer.Option(help="Split to judge probes on, fitted on all measured rows; by default a part of the rows."),
    ] = None
    chosen_on: Annotated[
        Literal["validation", "test"] | None,
        typer.Option(help="Split on which probes choose their epoch; by default a part of the measured rows."),
    ] = None
    intervals: Annotated[bool, typer.Option(help="Compute 95% confidence intervals.")] = True
    stream: Annotated[
        bool, typer.Option("--stream", help="Use constant memory, for any number of rows; without intervals.")
    ] = False
    nulls: Annotated[
        str | None,
        typer.Option(help="Chance levels to compare with: shuffled (labels), random (weights), or shuffled,random."),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="SCORE.NAME=VALUE",
            help="Option of a score, as in information.clusters=50; repeatable.",
        ),
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
            "pooling": self.pooling,
            "examples": self.examples,
            "rows": self.rows,
            "judged_on": self.judged_on,
            "chosen_on": self.chosen_on,
            "max_length": self.max_length,
            "uncertainty": self.intervals,
            "stream": self.stream,
            "nulls": _split(self.nulls or ""),
            "seed": self.seed,
            "options": _score_options(self.option or []),
        }


def _score_options(pieces: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return options by score; a score's name can have dots, an option's cannot."""
    by_score: dict[str, dict[str, str]] = {}
    for name, value in parse_options(pieces, where="--option").items():
        score, dot, option = name.rpartition(".")
        if not dot:
            raise OptionError(f"--option: {name}={value} names no score; write SCORE.{name}={value}")
        by_score.setdefault(score, {})[option] = value
    return by_score


def _split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")] if words else []


def command(
    *,
    data: groups.DataOptions,
    encoder: groups.EncoderOptions,
    list_scores: Annotated[bool, typer.Option("--list-scores", help="List the layer scores and exit.")] = False,
    how: MeasureFlags,
    machine: groups.MachineOptions,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Output folder for the scores.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Score every layer of an encoder for a task, before any training.

    Prints several scores of how specialised each layer already is in the task. The best layer by each score is marked,
    and so are the layers that cannot be told apart from it. Without arguments, a small embedded encoder is measured
    on movie-review snippets.
    """
    if list_scores:
        _list_scores(as_json=as_json)
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
        scores = measure(loaded, task, progress=progress, **arguments)
    if save is not None:
        info = folder_info("measurement", seed=how.seed)
        output_folder.write(save, info, {"scores.json": scores.to_json()})
    if as_json:
        screen.print_json(scores.to_json())
    else:
        _show(scores)


def _list_scores(*, as_json: bool) -> None:
    with screen.starting():
        from frostline.scoring.scores import LAYER_SCORES
        from frostline.scoring.selection import DEFAULT_SCORES

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "default": name in DEFAULT_SCORES,
            "better": score.better,
            "needs": score.needs,
            "paper": score.paper,
            "summary": score.summary,
            "options": dict(score.defaults),
        }
        for name, score in LAYER_SCORES.items()
    ]
    screen.list_records("scores", rows, {"name": "score", "summary": "meaning"}, as_json=as_json)
    if not as_json:
        screen.say(f"\nComputed by default: {', '.join(row['name'] for row in rows if row['default'])}.")


_POOLED = {
    "mean": "each text is the mean of its tokens but the first",
    "first": "each text is its first token",
    "all": "each text is the mean of all its tokens",
    "released": "each text is the mean of its tokens with an id above 2",
}


def _show(scores: LayerScores) -> None:
    from frostline.scoring.tables import scores_table

    task, table = scores.task, scores_table(scores)
    screen.say(table.title, style="bold")
    about = {
        "classification": f", classes {', '.join(task.labels)}",
        "multiple choice": " (a question with one of its choices, right or wrong)",
        "regression": "",
    }[task.kind]
    screen.say(f"{scores.examples:,} {scores.rows} texts{about}; {_POOLED[scores.pooling]}\n")
    # Marks have a column of their own, so that numbers are right below each other.
    lines = [[cell if cell[-1] in "◀~" else f"{cell}  " for cell in map(str, row)] for row in table.rows]
    screen.out().print(screen.table(table.columns, lines, right=table.columns))
    screen.say(*(f"\n{note}\n" for note in table.notes), *map(_describe, scores.scores.values()))
    for pair in scores.agreement:
        screen.say(
            f"{pair.score} and {pair.probe} over {pair.layers} layers: "
            f"Pearson {pair.pearson:+.2f}, Spearman {pair.spearman:+.2f}"
        )
    screen.say_notes(scores.notes)


def _describe(score: LayerScore) -> str:
    if score.best is None:
        return f"{score.name}: undefined at every layer."
    others = [layer for layer in score.tied if layer != score.best]
    chance = "" if score.probability is None else f" (probability {score.probability[score.best]:.2f})"
    tied = f"; {name_layers(others)} cannot be told apart from it" if others else ""
    return f"{score.name}: layer {score.best} is the best{chance}{tied}."
