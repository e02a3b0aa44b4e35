"""A plan: which layers train and how, and where the head reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frostline.errors import OptionError
from frostline.records._json import Record
from frostline.records.display import Displayed
from frostline.records.layer_ranges import name_layers


@dataclass(frozen=True, kw_only=True)
class Plan(Record, Displayed):
    """Which layers train and how, and where the head reads; everything above the head is dropped.

    Args:
        layers: the layers that train, ascending; 1 is the lowest; if empty, only the head trains.
        head: the layer that the head reads.
        embeddings: whether the embeddings train too, as in full fine-tuning only.
        method: how the layers train.
        options: options of the method.
        because: the reason for these layers, in a sentence.

    Example:
        >>> plan = frostline.Plan.span(5, 6, 6)
        >>> str(plan), plan.layers
        ('(5, 6, 6)', (5, 6))
    """

    layers: tuple[int, ...]
    head: int
    embeddings: bool = False
    method: str = "full"
    options: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    because: str = ""

    def __post_init__(self) -> None:
        for layer in (*self.layers, self.head):
            if not isinstance(layer, int) or isinstance(layer, bool):
                raise OptionError(f"plan layer {layer!r}: must be a whole number")
        if list(self.layers) != sorted(set(self.layers)) or any(layer < 1 for layer in self.layers):
            raise OptionError(f"plan layers {list(self.layers)}: must be different numbers from 1, ascending")
        if self.head < 1:
            raise OptionError(f"plan head {self.head}: must be 1 or more")
        top = self.layers[-1] if self.layers else 0
        if self.head < top:
            raise OptionError(f"plan head {self.head}: must not lie below layer {top}, the highest that trains")
        if self.embeddings and self.layers != tuple(range(1, self.head + 1)):
            raise OptionError(f"plan {self}: embeddings train only together with all layers up to the head")
        if self.embeddings and self.method != "full":
            raise OptionError(f"plan {self}: the method {self.method} never trains embeddings")

    @classmethod
    def span(cls, bottom: int, top: int, head: int, *, embeddings: bool = False, because: str = "") -> Plan:
        """Return the plan (bottom, top, head): layers bottom..top train, and the head reads layer `head`."""
        if bottom > top:
            raise OptionError(f"plan ({bottom}, {top}, {head}): the bottom layer lies above the top one")
        return cls(layers=tuple(range(bottom, top + 1)), head=head, embeddings=embeddings, because=because)

    @classmethod
    def whole_or_span(cls, bottom: int, top: int, head: int, *, depth: int, because: str = "") -> Plan:
        """Return the plan (bottom, top, head), or full fine-tuning if that is all layers of the encoder."""
        is_whole = (bottom, top, head) == (1, depth, depth)
        return cls.span(bottom, top, head, embeddings=is_whole, because=because)

    @classmethod
    def full(cls, depth: int) -> Plan:
        """Return full fine-tuning: every layer and the embeddings train."""
        return cls.span(1, depth, depth, embeddings=True, because="full fine-tuning")

    @property
    def lowest(self) -> int:
        """The lowest layer that has to run in training, 0 for the embeddings: the layers below never change."""
        if self.embeddings:
            return 0
        return self.layers[0] if self.layers else self.head + 1

    def identity(self) -> dict[str, Any]:
        """Return the plan's JSON without the reason: equal for plans that do the same."""
        return {**self.to_json(), "because": ""}

    @property
    def name(self) -> str:
        """The name in tables, figures and sentences: the layers and, unless it is the usual one, the method."""
        has_usual_method = self.method == "full" and not self.embeddings
        return str(self) if has_usual_method else f"{self} {self.method}"

    def __str__(self) -> str:
        """The layers and the head, without the method: `(bottom, top, head)` if the layers are contiguous."""
        if not self.layers:
            return f"head only at {self.head}"
        if len(self.layers) == self.layers[-1] - self.layers[0] + 1:
            return f"({self.layers[0]}, {self.layers[-1]}, {self.head})"
        return f"(layers {'+'.join(map(str, self.layers))}, head {self.head})"

    def in_words(self, depth: int) -> str:
        """Return a sentence on what was trained, what stayed as pretrained and what was dropped.

        Args:
            depth: number of layers of the whole encoder.
        """
        trained = "only the head was trained"
        if self.layers:
            embeddings = ", the embeddings" if self.embeddings else ""
            trained = f"{name_layers(self.layers)} of {depth}{embeddings} and the head were trained"
        frozen = [number for number in range(1, self.head + 1) if number not in self.layers]
        kept = [*([] if self.embeddings else ["the embeddings"]), *([name_layers(frozen)] if frozen else [])]
        stayed = f"; {' and '.join(kept)} stayed as pretrained" if kept else ""
        above = range(self.head + 1, depth + 1)
        dropped = f"; {name_layers(above)} {'was' if len(above) == 1 else 'were'} dropped" if above else ""
        return f"{trained}{stayed}; the head reads layer {self.head}{dropped}"
