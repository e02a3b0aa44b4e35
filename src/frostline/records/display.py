"""The display of records in notebooks: views register themselves here, so that records do not depend on views."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def as_html(record: object) -> str | None:
    """Return the record as HTML, or None if no view is registered: notebooks then show its repr."""
    return None


class Displayed:
    """A record that notebooks display with its registered view."""

    def _repr_html_(self) -> str | None:
        return as_html(self)
