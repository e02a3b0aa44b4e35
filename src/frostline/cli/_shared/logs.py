"""The library's log, as commands print it and write it to a file."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from frostline.cli._shared import screen
from frostline.cli._shared.flags import with_flags
from frostline.errors import FrostlineError, OptionError, TrialError
from frostline.progress import logger


class _WithFlags(logging.Formatter):
    """A formatter of messages that names flags instead of parameters."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's own name)
        """Return the line."""
        return with_flags(super().formatMessage(record))


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """How much a command prints."""

    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also print details, and the tracebacks of failed trials.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only results, warnings and errors.")] = False
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file", metavar="FILE", help="Append the log with all details to a file.", show_default=False
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.verbose and self.quiet:
            raise OptionError("--verbose and --quiet: give one of them")

    @property
    def level(self) -> int:
        """The lowest level that is printed."""
        return logging.DEBUG if self.verbose else logging.WARNING if self.quiet else logging.INFO

    def open_file(self) -> logging.FileHandler | None:
        """Return the handler that appends to the log file, if there is one."""
        if self.log_file is None:
            return None
        try:
            handler = logging.FileHandler(self.log_file, encoding="utf-8")
        except OSError as error:
            raise OptionError(
                f"--log-file {self.log_file}: cannot be written ({error.strerror}); give another file"
            ) from None
        handler.setFormatter(_WithFlags("%(asctime)s %(levelname)-7s %(message)s"))
        return handler


def with_log(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command with flags for its log."""

    @functools.wraps(function)
    def call(*, log: LogOptions, **given: Any) -> None:
        with listening(log, is_json=given.get("as_json", False)):
            logger.debug("frostline %s: %s", function.__module__.rpartition(".")[2], ", ".join(_in_words(given)))
            function(**given)

    signature = inspect.signature(function, eval_str=True)
    log = inspect.Parameter("log", inspect.Parameter.KEYWORD_ONLY, annotation=LogOptions)
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), log])  # type: ignore[attr-defined]
    return call


def _in_words(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that are set, including those in groups."""
    for name, value in given.items():
        if is_dataclass(value):
            yield from _in_words(vars(value))
        elif value is not None:
            yield f"{name}={value}"


@contextlib.contextmanager
def listening(options: LogOptions, *, is_json: bool = False) -> Iterator[None]:
    """Print the library's log, and write it to the log file if there is one, while the block runs.

    Args:
        options: how much is printed, and the file.
        is_json: whether standard output is reserved for one JSON object.
    """
    file, before = options.open_file(), logger.level
    handlers: list[logging.Handler] = [screen.Lines(options.level, is_json=is_json), *([file] if file else [])]
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if file else options.level)
    try:
        yield
    except BaseException as error:
        if isinstance(error, TrialError):
            logger.debug("%s", error.details)
        if file:
            _write_end(file, error)
        raise
    finally:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def _write_end(file: logging.Handler, error: BaseException) -> None:
    """Write how the command ended; `frostline.cli.invoke` prints it."""
    trace = None if isinstance(error, FrostlineError) else (type(error), error, error.__traceback__)
    words = str(error) or type(error).__name__
    file.handle(logger.makeRecord(logger.name, logging.ERROR, "", 0, words, (), trace))
