"""`perdure`: the entry point. One command is run, and the process ends with a documented exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import traceback
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from perdure.cli import exits
from perdure.cli.commands import Commands
from perdure.cli.logs import set_up_logs
from perdure.cli.output import ReaderGone, put, put_json
from perdure.upp.redacted_logs import without_credentials

app = typer.Typer(
    cls=Commands,
    help="Run AI agents that outlive their processes.",
    epilog=exits.EPILOG,
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def demo(
    folder: Annotated[Path | None, typer.Argument(help="The folder to audit; a sample project by default.")] = None,
) -> int:
    """Watch a run survive the death of its worker."""
    from perdure.cli.demo import run_demo

    return asyncio.run(run_demo(folder))


def _show_version(wanted: bool) -> None:
    if wanted:
        put(f"perdure {version('perdure')}\n")
        raise typer.Exit


@app.callback()
def perdure(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Run AI agents that outlive their processes."""


def main() -> NoReturn:
    """Run one command and leave.

    The process ends by `os._exit`: Temporal's client has died with a segmentation fault in the interpreter's clean-up.
    """
    set_up_logs()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal cannot show must not end a command
    code = _run(sys.argv[1:])
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or exits.READER_GONE
    os._exit(code)


def _run(arguments: list[str]) -> int:
    try:
        answer: object = app(arguments, prog_name="perdure", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return exits.INTERRUPTED
    except SystemExit as error:  # the user's module has called sys.exit() while it was imported
        return _code_of_exit(error)
    except Exception as error:  # noqa: BLE001 - the edge of the process: told in one line, with the code that it means
        _tell(error, as_json="--json" in arguments)
        return exits.code_of(error)
    return answer if isinstance(answer, int) else exits.OK


def _code_of_exit(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or exits.OK
    sys.stderr.write(f"{error.code}\n")
    return exits.FAILED


def _tell(error: Exception, *, as_json: bool) -> None:
    """Say what ended the command: a line for people, and for programs the document that they wait for."""
    if isinstance(error, ReaderGone):
        return
    if exits.is_debugging():
        sys.stderr.write(without_credentials("".join(traceback.format_exception(error))))
    message = without_credentials(exits.message_of(error))
    if message:  # empty where the help was shown instead
        sys.stderr.write(f"error: {message}\n")
    if as_json:
        put_json({"error": {"type": exits.type_of(error), "message": message}})


if __name__ == "__main__":
    main()
