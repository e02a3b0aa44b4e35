"""The data that Frostline fetches by itself: sentences from four sources, rated -4 to 4 by people.

For each source a sign task (negative or positive; ratings of exactly 0 are left out) and a rating task (regression).
The other three sources are ready-made domain shifts from the default one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from frostline.tasks.assemble import Parts
from frostline.tasks.preset import PRESETS, Preset
from frostline.tasks.raw_table import counted
from frostline.tasks.task import Split

if TYPE_CHECKING:
    from datasets import DatasetDict

SOURCES = {
    "movies": "snippets of film reviews",
    "tweets": "tweets",
    "products": "sentences from product reviews",
    "newspaper": "sentences from newspaper editorials",
}
FIXED_SIZES = (2000, 1000)
FIXED_SIZES_FROM = 10_000
DEFAULT = "movies"
_METRICS = {"sign": ("accuracy",), "rating": ("spearman", "pearson")}


def _parts(source: str, *, name: str, asks: Literal["sign", "rating"]) -> Parts:
    from frostline.files.demo_assets import ratings

    rows = list(enumerate(ratings(source), start=1))
    kept = [row for row in rows if asks == "rating" or row[1][1] != 0]
    dropped = len(rows) - len(kept)
    notes = (f"{counted(dropped, 'row')} rated exactly 0 left out",) if dropped else ()
    split = Split(
        texts=tuple([text for _, (_, _, text) in kept]),
        labels=tuple([rating if asks == "rating" else int(rating > 0) for _, (_, rating, _) in kept]),
        groups=_groups([identity for _, (identity, _, _) in kept]),
        rows=tuple([number for number, _ in kept]),
    )
    return Parts(
        name=name,
        kind="regression" if asks == "rating" else "classification",
        label_names=() if asks == "rating" else ("negative", "positive"),
        train=split,
        source=f"embedded:{source}",
        metrics=_METRICS[asks],
        sizes=FIXED_SIZES if len(split) >= FIXED_SIZES_FROM else None,
        notes=notes,
    )


def _groups(identities: list[str]) -> tuple[str, ...] | None:
    """The review or article of every sentence, where the id '12_3' says so: sentence 3 of text 12."""
    if not all("_" in identity for identity in identities):
        return None
    return tuple([identity.split("_", 1)[0] for identity in identities])


def _register(source: str, what: str, asks: Literal["sign", "rating"]) -> None:
    name = source if asks == "sign" else f"{source}-rating"

    def read(data_dir: str | Path | DatasetDict | None, revision: str | None) -> Parts:
        return _parts(source, name=name, asks=asks)

    PRESETS.add(
        name,
        Preset(
            name=name,
            summary=f"are {what} negative or positive?" if asks == "sign" else f"how do people rate {what}, -4 to 4?",
            kind="classification" if asks == "sign" else "regression",
            label_names=("negative", "positive") if asks == "sign" else (),
            metrics=_METRICS[asks],
            aliases=(f"embedded/{name}",),
            read=read,
            takes_data_dir=False,
        ),
    )


for _source, _what in SOURCES.items():
    _register(_source, _what, "sign")
    _register(_source, _what, "rating")
