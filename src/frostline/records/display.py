"""How notebooks show a record: views register themselves here, so that records know none."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def as_html(record: object) -> str | None:
    """Return the record as HTML, or None where no view is registered: notebooks then show its repr."""
    return None


class Displayed:
    """A record that notebooks show by its registered view."""

    def _repr_html_(self) -> str | None:
        return as_html(self)
