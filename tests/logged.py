"""What the library logs while a block runs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from frostline.progress import logger


class _Kept(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def logged(lines: list[str] | None = None) -> Iterator[list[str]]:
    """The lines that are logged within the block."""
    kept = [] if lines is None else lines
    handler, before = _Kept(kept), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield kept
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
