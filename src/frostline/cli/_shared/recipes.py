"""Flags that say how layers train, and recipes from files."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from frostline.cli._shared import options

RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        metavar="FILE",
        help="JSON file such as a run's recipe.json; other flags override its fields.",
        show_default="none",
    ),
]


def fields_of(file: Path | None, **given: Any) -> dict[str, Any]:
    """Return the fields of a recipe that are set: those of a file, overridden by flags that are given.

    Args:
        file: the JSON file, if there is one.
        given: flags by the name of their field; None where a flag is not given.
    """
    from frostline.api._arguments import recipe_fields

    return {**recipe_fields(file), **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class TrialRecipeOptions:
    """How the trials of a run train; the fields are those of `Recipe`, None where a flag is not given."""

    recipe_file: RecipeFile = None
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", help="Passes over the training rows in a complete trial.", show_default="3"),
    ] = None
    batch: Annotated[int | None, typer.Option("--batch", help="Rows per step.", show_default="32")] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="The learning rate of every plan.",
            show_default="what suits each plan, and twice that for the best one",
        ),
    ] = None
    max_length: options.MaxLength = None
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of everything drawn at random.", show_default="0")
    ] = None

    def given(self, *, threads: int | None) -> dict[str, Any]:
        """Return the fields of the recipe that are set, by flags or by the file.

        Args:
            threads: CPU threads, if they are given.
        """
        flags = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "recipe_file"}
        return fields_of(self.recipe_file, threads=threads, **flags)


@dataclass(frozen=True, kw_only=True)
class RecipeOptions(TrialRecipeOptions):
    """How layers train, in full."""

    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs", help="Passes over the training rows.", show_default="3, and 30 where only the head trains"
        ),
    ] = None
    learning_rate: Annotated[
        float | None, typer.Option(help="The highest learning rate.", show_default="what suits the plan")
    ] = None
    schedule: Annotated[
        str | None, typer.Option(help="Decay of the rate after warm-up: linear or constant.", show_default="linear")
    ] = None
    warmup: Annotated[
        float | None, typer.Option(help="Share of the steps over which the rate rises.", show_default="0.06")
    ] = None
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay of AdamW, on all but norms and biases.", show_default="0")
    ] = None
    clip: Annotated[
        float | None, typer.Option(help="Clip gradients to this norm; 0 disables clipping.", show_default="1")
    ] = None
    accumulate: Annotated[int | None, typer.Option(help="Gradient accumulation steps.", show_default="1")] = None
    dropout: Annotated[
        float | None, typer.Option(help="Dropout of layers and head.", show_default="the encoder's own")
    ] = None
    head: Annotated[
        str | None,
        typer.Option(help="'family' for the family's own head, 'mean' for a mean-pooled one.", show_default="family"),
    ] = None
    select: Annotated[
        str | None,
        typer.Option(help="Evaluation to keep: 'best' on validation, or the 'last'.", show_default="best"),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(help="Stop after this many evaluations without improvement.", show_default="never"),
    ] = None
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations.", show_default="one per epoch")
    ] = None
    precision: Annotated[
        str | None,
        typer.Option(help="Number format of the forward pass: float32 or bfloat16.", show_default="float32"),
    ] = None
    cache_dtype: Annotated[
        str | None,
        typer.Option(help="Number format of cached frozen states: float16 or float32.", show_default="float16"),
    ] = None
