"""The command line: one file per command, no logic.

Results go to standard output, everything else to standard error. A user's mistake is one line and exit code 2; a
traceback is a bug.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Annotated, Any

import typer

from frostline.cli import (
    cache,
    doctor,
    encoders,
    evaluate,
    measure,
    plan,
    predict,
    report,
    results,
    run,
    study,
    tasks,
    tune,
)
from frostline.cli._shared.expand_groups import expand_groups
from frostline.cli._shared.flags import with_flags
from frostline.cli._shared.logs import with_log
from frostline.errors import FrostlineError, Interrupted

app = typer.Typer(
    name="frostline",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find out which layers of a pretrained text encoder to tune, freeze and drop, and tune them.",
    epilog="Start with `frostline run`, which needs no arguments; then use your own file: `frostline run reviews.csv`.",
)
for module in (run, measure, plan, tune, predict, evaluate, study, results, report, cache, encoders, tasks, doctor):
    app.command(name=module.__name__.rpartition(".")[2])(expand_groups(with_log(module.command)))


def _show_version(wanted: bool) -> None:
    if wanted:
        from frostline import __version__

        typer.echo(f"frostline {__version__}")
        raise typer.Exit


@app.callback()
def _shared(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = None,
) -> None:
    pass


# typer carries click inside; this is the public way to the root of its errors.
_ClickException: type[Exception] = typer.BadParameter.__bases__[0].__bases__[0]


# Errors of the system, not of Frostline: permissions, a full disk, a read-only disk.
_OUTSIDE = (errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def main() -> None:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no bars and arrows shows question marks
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Run one command line; return its exit code."""
    try:
        code = app(arguments or ["--help"], standalone_mode=False, prog_name="frostline")
        sys.stdout.flush()
    except FrostlineError as error:
        return _fail(with_flags(str(error)), error.exit_code)
    except typer.Abort:
        return _fail("interrupted", Interrupted.exit_code)
    except _ClickException as error:
        return _fail(_usage_message(error), 2)
    except (BrokenPipeError, SystemExit) as error:
        # The reader (`| head`) has gone, which typer turns into a SystemExit. Python would complain once more when it
        # closes standard output.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return 0
    except OSError as error:
        if error.errno not in _OUTSIDE:
            raise
        remedy = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "change the permissions"
        return _fail(f"{error.filename or 'output'}: {error.strerror}; {remedy}, or choose another folder", 2)
    if code == Interrupted.exit_code:
        return _fail("interrupted", Interrupted.exit_code)
    return code if isinstance(code, int) else 0


def _usage_message(error: Any) -> str:
    """Return click's message in one line, with the wrong value and where to read on."""
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    errors = getattr(error.__cause__, "errors", None)  # typer checks values with pydantic
    value = repr(errors()[0]["input"]) if callable(errors) else ""
    given = f" (got {value})" if value and value not in message else ""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "frostline"
    return f"{message}{given}; see `{command} --help`"


def _fail(message: str, code: int) -> int:
    print(f"frostline: {' '.join(message.split())}", file=sys.stderr)
    return code
