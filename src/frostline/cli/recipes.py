"""Flags of `frostline tune` that say how it trains."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from frostline.cli import options

if TYPE_CHECKING:
    from frostline.records import Recipe


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """How layers train; the fields are those of `Recipe`."""

    epochs: options.Epochs = 3
    batch: options.Batch = 32
    learning_rate: Annotated[
        float | None, typer.Option(help="The highest learning rate.", show_default="the method's own")
    ] = None
    schedule: Annotated[str, typer.Option(help="How the rate falls after warm-up: linear or constant.")] = "linear"
    warmup: Annotated[float, typer.Option(help="Share of the steps over which the rate rises.")] = 0.06
    weight_decay: Annotated[float, typer.Option(help="Of AdamW, on all but norms and biases.")] = 0.0
    clip: Annotated[float, typer.Option(help="Longest gradient that is not shortened; 0 never shortens.")] = 1.0
    accumulate: Annotated[int, typer.Option(help="Batches that are added up for a step.")] = 1
    dropout: Annotated[float | None, typer.Option(help="Of layers and head.", show_default="the encoder's own")] = None
    head: Annotated[str, typer.Option(help="The family's own head, or mean for a mean-pooled linear one.")] = "family"
    select: Annotated[str, typer.Option(help="Keep the best evaluation on validation, or the last.")] = "best"
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many evaluations without improvement.", show_default="never")
    ] = None
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations.", show_default="one an epoch")
    ] = None
    precision: Annotated[str, typer.Option(help="Of the forward pass: float32, bfloat16.")] = "float32"
    cache_dtype: Annotated[str, typer.Option(help="In which frozen states are kept: float16, float32.")] = "float16"
    max_length: options.MaxLength = None
    seed: options.Seed = 0

    def recipe(self, *, threads: int | None) -> Recipe:
        """Return the recipe.

        Args:
            threads: CPU threads.
        """
        from frostline.records import Recipe

        return Recipe(**{**asdict(self), "threads": threads})
