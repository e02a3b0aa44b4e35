"""The data that Frostline downloads by itself: sentences from four sources, rated -4 to 4 by people.

Each source has a sign task (negative or positive; ratings of exactly 0 are left out) and a rating task (regression).
The other three sources are ready-made domain shifts from the default one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from frostline.tasks.preset import PRESETS, DataDir, Preset
from frostline.tasks.raw_table import counted
from frostline.tasks.task import Split, Task

SOURCES = {
    "movies": "snippets of film reviews",
    "tweets": "tweets",
    "products": "sentences from product reviews",
    "newspaper": "sentences from newspaper editorials",
}
DEFAULT = "movies"


@dataclass(frozen=True, kw_only=True)
class RatedSentences(Preset):
    """A preset on the rated sentences of one source; its kind decides between signs and ratings."""

    source: str

    def read(self, data_dir: DataDir, revision: str | None) -> Task:
        """Return the sentences of the source, in the order of its file."""
        from frostline.files.demo_assets import ratings

        is_sign = self.kind == "classification"
        rows = list(enumerate(ratings(self.source), start=1))
        kept = [row for row in rows if not is_sign or row[1][1] != 0]
        dropped = len(rows) - len(kept)
        train = Split(
            texts=tuple([text for _, (_, _, text) in kept]),
            labels=tuple([int(rating > 0) if is_sign else rating for _, (_, rating, _) in kept]),
            groups=_groups([identity for _, (identity, _, _) in kept]),
            rows=tuple([number for number, _ in kept]),
        )
        return Task(
            name=self.name,
            kind=self.kind,
            label_names=self.label_names,
            train=train,
            validation=None,
            test=None,
            source=f"embedded:{self.source}",
            metrics=self.metrics,
            notes=(f"{counted(dropped, 'row')} rated exactly 0 left out",) if dropped else (),
        )


def _groups(identities: list[str]) -> tuple[str, ...] | None:
    """Return the review or article of every sentence, if the ids contain it: '12_3' is sentence 3 of text 12."""
    if not all("_" in identity for identity in identities):
        return None
    return tuple([identity.split("_", 1)[0] for identity in identities])


for _source, _title in SOURCES.items():
    _sign = RatedSentences(
        name=_source,
        summary=f"are {_title} negative or positive?",
        label_names=("negative", "positive"),
        aliases=(f"embedded/{_source}",),
        takes_data_dir=False,
        sizes=(2000, 1000) if _source == DEFAULT else None,
        source=_source,
    )
    _rating = replace(
        _sign,
        name=f"{_source}-rating",
        summary=f"how do people rate {_title}, -4 to 4?",
        kind="regression",
        label_names=(),
        metrics=("spearman", "pearson"),
        aliases=(f"embedded/{_source}-rating",),
    )
    for _preset in (_sign, _rating):
        PRESETS.add(_preset.name, _preset)
