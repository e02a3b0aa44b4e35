"""Every error that Frostline raises on purpose, and the exit code of the program for each.

    FrostlineError                  1   never raised itself
    +-- UserError                   2   one mistake, one line: what, where, what to do
    |   +-- OptionError             2   an argument that cannot be used as given
    |   +-- DataError               2   a file, row or column that cannot be read as a task
    |   +-- EncoderError            2   a model folder or hub id that cannot be used as an encoder
    |   +-- RecordError             2   a file or value that is not the record it should be
    |   +-- FetchError              2   something that has to be downloaded and cannot be reached
    |   +-- MeasureError            2   a task and an encoder that give no meaningful layer score
    |   +-- TuneError               2   training that diverged: a loss that is not finite
    +-- AuditError                  1   the trained parameters differ from the plan's; a bug, never a silent success
    +-- TrialError                  1   a bug inside a trial; its traceback is recorded with the trial
    +-- TrialsFailed                3   some trials of a study failed; the others are recorded
    +-- Interrupted               130   interrupted by the user; finished work is kept

Anything else that escapes is a bug and keeps its traceback (exit code 1).

Messages name parameters as Python has them, in backticks, with the value if there is one: "`max_latency=2`: must be
...", "pass `overwrite=True`", "a larger `margin`". A name alone in backticks is always a parameter. The command line
prints the flags instead (`frostline.cli._shared.flags`). The same holds for notes and for what is logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FrostlineError(Exception):
    """The root of every error that Frostline raises on purpose.

    Example:
        >>> try:
        ...     frostline.load_task("no-such-file.csv")
        ... except frostline.FrostlineError as error:
        ...     error.exit_code
        2
    """

    exit_code = 1


class UserError(FrostlineError):
    """A mistake the user can fix; its message is one line.

    Example:
        >>> try:
        ...     frostline.load_task("no-such-file.csv")
        ... except frostline.UserError as error:
        ...     print(error)
        no-such-file.csv: ...
    """

    exit_code = 2


class OptionError(UserError):
    """An argument that cannot be used as given."""


class DataError(UserError):
    """A file, row or column that cannot be read as a task."""


class EncoderError(UserError):
    """A model folder or hub id that cannot be used as an encoder."""


class RecordError(UserError):
    """A file or value that is not the record it should be; the message begins with the path of the field."""


class FetchError(UserError):
    """Something that has to be downloaded and cannot be reached."""


class MeasureError(UserError):
    """A task and an encoder that give no meaningful layer score."""


class TuneError(UserError):
    """Training that diverged."""


class AuditError(FrostlineError):
    """The parameters that trained are not those of the plan."""


class TrialError(FrostlineError):
    """A bug inside a trial, which may have run in another process; `details` is the traceback from there."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class TrialsFailed(FrostlineError):
    """Some trials failed; the others are recorded."""

    exit_code = 3


class Interrupted(FrostlineError):
    """Interrupted by the user; finished work is kept and the rest can be resumed."""

    exit_code = 130


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return ' (did you mean X?)' for the known name that is most similar, or '' if none is; ends a message."""
    by_lower = {known.lower(): known for known in known_names}
    near = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f" (did you mean {by_lower[near[0]]}?)" if near else ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
