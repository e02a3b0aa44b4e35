"""Flags for hyperparameters, and recipes from files."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from frostline.cli._shared import options
from frostline.errors import OptionError

RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        metavar="FILE",
        help="JSON file such as a run's recipe.json; other flags override its fields.",
        show_default="none",
    ),
]

DropoutFrozen = Annotated[
    bool | None,
    typer.Option(
        "--dropout-frozen",
        help="Keep dropout on in the frozen layers below the lowest tuned one; their output is then not cached.",
        show_default="off",
    ),
]


def fields_of(file: Path | None, **given: Any) -> dict[str, Any]:
    """Return the fields of a recipe that are set in a file, overridden by those that are set by flags.

    Args:
        file: the JSON file, if there is one.
        given: values of flags by the name of their field; None without a flag.
    """
    from frostline.api._arguments import recipe_fields

    return {**recipe_fields(file), **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class TrialRecipeOptions:
    """Hyperparameters of the trials of a run: fields of `Recipe`, None without a flag."""

    recipe_file: RecipeFile = None
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", help="Epochs of a complete trial.", show_default="3"),
    ] = None
    batch: Annotated[int | None, typer.Option("--batch", help="Batch size.", show_default="32")] = None
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Learning rate of every plan.",
            show_default="by the plan; the best plan also with twice that",
        ),
    ] = None
    max_length: options.MaxLength = None
    precision: Annotated[
        str | None,
        typer.Option(
            help="Number format of training: float32 or bfloat16. Evaluation is in float32 on a CPU.",
            show_default="float32; in a run bfloat16 where the CPU has instructions for it",
        ),
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Random seed.", show_default="0")] = None

    def given(self, *, threads: int | None) -> dict[str, Any]:
        """Return the fields of the recipe that are set, by flags or by the file.

        Args:
            threads: CPU threads, if set.
        """
        flags = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "recipe_file"}
        return fields_of(self.recipe_file, threads=threads, **flags)


@dataclass(frozen=True, kw_only=True)
class RecipeOptions(TrialRecipeOptions):
    """All hyperparameters of tuning."""

    epochs: Annotated[
        int | None,
        typer.Option("--epochs", help="Epochs of training.", show_default="3, or 30 if only the head is trained"),
    ] = None
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.", show_default="by the plan")] = None
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Learning-rate schedule after warm-up: linear, constant or averaged; or 'solved', for a head alone.",
            show_default="linear",
        ),
    ] = None
    soup: Annotated[
        str | None,
        typer.Option(
            metavar="FACTORS",
            help="Train a model at each of these factors of the learning rate, as in 1,1,1, and average their "
            "weights (a model soup, Wortsman et al. 2022); the schedule is then averaged.",
            show_default="one model",
        ),
    ] = None
    warmup: Annotated[float | None, typer.Option(help="Share of the steps used for warm-up.", show_default="0.06")] = (
        None
    )
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay of AdamW, except on norms and biases.", show_default="0")
    ] = None
    clip: Annotated[
        float | None, typer.Option(help="Clip gradients to this norm; 0 disables clipping.", show_default="1")
    ] = None
    accumulate: Annotated[int | None, typer.Option(help="Gradient accumulation steps.", show_default="1")] = None
    dropout: Annotated[
        float | None, typer.Option(help="Dropout in layers and head.", show_default="the encoder's own")
    ] = None
    lower_dropout: DropoutFrozen = None
    head: Annotated[
        str | None,
        typer.Option(
            help="'family' for the architecture's own head, 'average' for the same on the mean of all tokens, 'mean' "
            "for a linear layer on the mean.",
            show_default="family",
        ),
    ] = None
    select: Annotated[
        str | None,
        typer.Option(help="Checkpoint to keep: 'best' on validation, or 'last'.", show_default="best"),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(help="Stop after this many evaluations without improvement.", show_default="never"),
    ] = None
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations.", show_default="one per epoch")
    ] = None
    cache_dtype: Annotated[
        str | None,
        typer.Option(help="Number format of cached frozen states: float16 or float32.", show_default="float16"),
    ] = None

    def given(self, *, threads: int | None) -> dict[str, Any]:
        """Return the fields of the recipe that are set, by flags or by the file; a soup has the averaged schedule.

        Args:
            threads: CPU threads, if set.
        """
        given = super().given(threads=threads)
        if self.soup is None:
            return given
        try:
            factors = tuple(float(word) for word in self.soup.split(","))
        except ValueError:
            raise OptionError(f"--soup {self.soup!r}: must be numbers above 0 as in 1,1,1") from None
        return {**given, "soup": factors, "schedule": self.schedule or "averaged"}
