"""The command line: one file per command, no logic.

Results go to standard output, everything else to standard error. A mistake is one line and exit code 2; what has a
traceback is a bug.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Optional

import click
import typer

from frostline.cli import encoders, measure, tasks
from frostline.errors import FrostlineError

app = typer.Typer(
    name="frostline",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which layers of a pretrained text encoder to tune, freeze and drop, and where to put the head.",
    epilog="Start with `frostline measure`: it needs no arguments. Then try it on your own file: "
    "`frostline measure reviews.csv`.",
)
app.command(name="measure")(measure.command)
app.command(name="encoders")(encoders.command)
app.command(name="tasks")(tasks.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from frostline import __version__

        typer.echo(f"frostline {__version__}")
        raise typer.Exit


@app.callback()
def _shared(
    version: Annotated[
        Optional[bool],  # noqa: UP045 (typer reads the annotation at run time)
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop."),
    ] = None,
) -> None:
    pass


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of one command line, after running it."""
    try:
        code = app(arguments, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except FrostlineError as error:
        return _fail(str(error), error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "frostline"
        return _fail(f"{error.format_message().rstrip('.')}; see `{command} --help`", 2)
    except click.ClickException as error:
        return _fail(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader (`| head`) has gone; Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _fail(message: str, code: int) -> int:
    print(f"frostline: {' '.join(message.split())}", file=sys.stderr)
    return code
