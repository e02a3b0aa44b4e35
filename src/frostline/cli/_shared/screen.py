"""Output of commands: results on standard output, progress on standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from frostline.cli._shared.flags import with_flags
from frostline.errors import Interrupted
from frostline.progress import Progress, Step, logger, silent
from frostline.records.table import Table as ResultTable
from frostline.records.table import cell_in_words

_ROWS_ON_SCREEN = 60
_STANDING_ROWS = 12
_QUIET_SECONDS = 30  # between two lines of progress without a terminal


class _Results(Console):
    """A console that shows flags for the parameters that sentences name."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(with_flags(text) if isinstance(text, str) else text for text in objects), **options)


def out(width: int = 160) -> Console:
    """Return the console for results; wide without a terminal, so that piped tables are not wrapped."""
    return _Results(width=None if sys.stdout.isatty() else width, highlight=False)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def size_in_words(count: int) -> str:
    """Return a number of bytes as people write it."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def list_records(
    name: str, records: Sequence[Mapping[str, Any]], headings: Mapping[str, str], *, as_json: bool
) -> None:
    """Print records as one JSON object, or as a table of some of their fields.

    Args:
        name: key of the JSON object.
        records: the records, as plain JSON values.
        headings: headings of the table by field.
        as_json: whether to print JSON.
    """
    if as_json:
        print_json({name: records})
    else:
        out().print(table(list(headings.values()), [[_in_words(row[key]) for key in headings] for row in records]))


def _in_words(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def print_metrics(metrics: Mapping[str, Mapping[str, float]], counts: Mapping[str, int]) -> None:
    """Print a table of metrics.

    Args:
        metrics: values by split and metric.
        counts: numbers of rows by split.
    """
    names = list(dict.fromkeys(name for values in metrics.values() for name in values))
    lines = [
        [split, f"{counts[split]:,}", *(f"{values[name]:.4f}" for name in names)] for split, values in metrics.items()
    ]
    out().print(table(["rows", "count", *names], lines, right=["count", *names]))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """Return a plain table; the columns named in `right` are aligned to the right."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(escape(column), justify="right" if column in right else "left")
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))  # labels and names may hold what looks like markup
    return made


def rich_table(made: ResultTable, *, left: Sequence[str], rows: int | None = None) -> Table:
    """Return a result's table as it is printed.

    Args:
        made: the table.
        left: columns of words; the others are aligned to the right.
        rows: how many at most; None for all.
    """
    lines = [[cell_in_words(cell) for cell in row] for row in made.rows[:rows]]
    return table(made.columns, lines, right=[name for name in made.columns if name not in left])


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Show a spinner while libraries are imported; an interrupt then ends the program at once.

    An interrupted import leaves half-loaded modules, which fail later in confusing ways.
    """

    def stop(number: int, frame: object) -> None:
        sys.stderr.write("frostline: interrupted\n")
        sys.stderr.flush()
        os._exit(130)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        with waiting("starting"):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def resumable(how: str | None) -> Iterator[None]:
    """Tell the user how to continue, if the block is interrupted.

    Args:
        how: how to continue; None if that is impossible.
    """
    try:
        yield
    except KeyboardInterrupt:
        if how is None:
            raise
        raise Interrupted(f"interrupted; {how}") from None


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a spinner on standard error while the block runs; nothing without a terminal."""
    console = Console(stderr=True)
    is_shown = console.is_terminal and not is_quiet()
    with console.status(what) if is_shown else contextlib.nullcontext():
        yield


_LIVE: list[Live] = []  # the bar that is on the screen, if there is one


def say(*lines: str, style: str | None = None, wrap: bool = True) -> None:
    """Print lines on standard output; above the bar where both are on one screen.

    Args:
        lines: the lines.
        style: rich's style of them.
        wrap: whether to break long lines between words; not for what may be copied, such as paths.
    """
    console = _LIVE[-1].console if _LIVE and sys.stdout.isatty() else out()
    for line in lines:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=not wrap)


def say_notes(notes: Iterable[str]) -> None:
    """Print notes on standard output, less prominent than results."""
    say(*(f"note: {note}" for note in notes), style="dim")


class Lines(logging.Handler):
    """Prints the log: information on standard output, details and warnings on standard error.

    Args:
        level: lowest level that is printed.
        is_json: whether standard output is reserved for one JSON object.
    """

    def __init__(self, level: int, *, is_json: bool = False) -> None:
        super().__init__(level)
        self.printed: list[str] = []
        self._is_json = is_json

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        line = with_flags(record.getMessage())
        if record.levelno == logging.INFO and not self._is_json:
            self.printed.append(record.getMessage())
            say(line)
        elif record.levelno != logging.INFO or self.level < logging.INFO:
            _say_aside(f"{record.levelname.lower()}: {line}" if record.levelno > logging.INFO else line)
            if record.exc_info:
                _say_aside("".join(traceback.format_exception(*record.exc_info)).rstrip())


def _say_aside(line: str) -> None:
    """Print a line on standard error; above the bar where there is one."""
    console = _LIVE[-1].console if _LIVE else Console(stderr=True)
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def is_quiet() -> bool:
    """Return whether only results, warnings and errors are printed."""
    return any(isinstance(handler, Lines) and handler.level > logging.INFO for handler in logger.handlers)


def printed_lines() -> list[str]:
    """Return the lines of information that this command has printed."""
    return [line for handler in logger.handlers if isinstance(handler, Lines) for line in handler.printed]


def describe(step: Step) -> str:
    """Return what is being done, in words."""
    if step.stage == "training":
        return step.detail  # the epoch says it
    return f"{step.stage}: {step.detail}" if step.detail else step.stage


def _logged(progress: Progress) -> Progress:
    """Return a callback that also logs the beginning of every stage."""
    stage = ""

    def show(step: Step) -> None:
        nonlocal stage
        if step.stage != stage:
            stage = step.stage
            logger.debug("stage: %s", stage)
        progress(step)

    return show


def _lines_in_log(console: Console) -> Progress:
    """Return a callback that prints a line once in a while, instead of a bar."""
    last = time.monotonic()

    def show(step: Step) -> None:
        nonlocal last
        if time.monotonic() - last < _QUIET_SECONDS:
            return
        last = time.monotonic()
        line = f"{describe(step)} {step.done} of {step.total}" if step.total > 1 else describe(step)
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    return show


@contextlib.contextmanager
def stages() -> Iterator[Progress]:
    """Yield a progress callback that moves a bar on standard error, with interim results above it.

    Without a terminal, it prints a line every half minute. Stages are logged as details.
    """
    if is_quiet():
        yield _logged(silent)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _logged(_lines_in_log(console))
        return
    from rich import progress as bars

    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn())
    bar = bars.Progress(*columns, bars.TimeRemainingColumn(), console=console)
    task = bar.add_task("starting", total=None)
    with Live(bar, console=console, transient=True, refresh_per_second=8) as live, contextlib.ExitStack() as stack:
        _LIVE.append(live)
        stack.callback(_LIVE.pop)
        stage = ""

        def show(step: Step) -> None:
            nonlocal stage
            if step.table is not None:
                live.update(Group(_standing(step.table), bar))
                return
            if step.stage != stage:
                stage = step.stage
                bar.reset(task)
            bar.update(task, description=describe(step), completed=step.done, total=step.total)

        yield _logged(show)


def _standing(made: ResultTable) -> Table:
    """Return the first rows of an interim result, to show above the bar."""
    shown = rich_table(made, left=("plan", "from"), rows=_STANDING_ROWS)
    shown.title, shown.title_justify = made.title, "left"
    return shown


def show_table(made: ResultTable) -> None:
    """Print a study's table with its title and notes; on a terminal, only the first rows.

    Constant columns are printed once, above the table, and the two ends of an interval in one column.
    """
    console = out(width=1000)
    console.print(made.title, style="bold", markup=False)
    rows = [_with_intervals(record) for record in made.records()]
    same = [name for name in (rows[0] if len(rows) > 1 else {}) if len({str(row[name]) for row in rows}) == 1]
    constants = [name for name in same if rows[0][name] is False or rows[0][name] not in (None, 0, "")]
    if constants:
        console.print(", ".join(f"{name} {cell_in_words(rows[0][name])}" for name in constants), markup=False)
    columns = [name for name in (rows[0] if rows else made.columns) if name not in same]
    shown = rows[:_ROWS_ON_SCREEN] if sys.stdout.isatty() else rows
    numbers = [name for name in columns if any(isinstance(row[name], int | float) for row in rows)]
    console.print(table(columns, [[cell_in_words(row[name]) for name in columns] for row in shown], right=numbers))
    if len(shown) < len(rows):
        console.print(f"... and {len(rows) - len(shown)} more rows", markup=False)
    for note in made.notes:
        console.print(f"note: {note}", markup=False)
    console.print()


_RESAMPLED = ("seeds", "rows")  # prefixes of intervals that name what was resampled


def _with_intervals(record: Mapping[str, object]) -> dict[str, object]:
    """Return the row with `low` and `high`, `x_low` and `x_high` each as one interval."""
    joined: dict[str, object] = {}
    for name, value in record.items():
        start = name.removesuffix("low")
        if name.endswith("low") and f"{start}high" in record:
            high = record[f"{start}high"]
            ends = None if value is None or high is None else f"{cell_in_words(value)} to {cell_in_words(high)}"
            of = start[:-1]
            joined[f"95% over {of}" if of in _RESAMPLED else f"{of} 95%" if of else "95% interval"] = ends
        elif not (name.endswith("high") and f"{name.removesuffix('high')}low" in record):
            joined[name] = value
    return joined
