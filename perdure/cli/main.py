"""`perdure`: every command, and the end of the process."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from perdure.cli import exits, serving

app = typer.Typer(
    name="perdure",
    help="Run AI agents that outlive their processes.",
    epilog=exits.EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(serving.worker)
app.command()(serving.migrate)


@app.command()
def demo(
    folder: Annotated[Path | None, typer.Argument(help="The folder to audit; a sample project by default.")] = None,
) -> int:
    """Watch a run survive the death of its worker."""
    from perdure.cli.demo import run_demo

    return asyncio.run(run_demo(folder))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perdure {version('perdure')}")
        raise typer.Exit


@app.callback()
def perdure(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Run AI agents that outlive their processes."""


def main() -> NoReturn:
    """Run one command and leave, with the exit code that `exits` documents.

    The process ends by `os._exit`: Temporal's client has died with a segmentation fault in the interpreter's clean-up.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    code = _run()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = exits.READER_GONE
    os._exit(code)


def _run() -> int:
    try:
        answer: object = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return exits.INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else exits.FAILED
    except Exception as error:  # noqa: BLE001 -- the edge: what is not caught here is shown as a traceback
        if exits.is_debugging():
            traceback.print_exc()
        sys.stderr.write(f"error: {exits.line_of(error)}\n")
        return exits.code_of(error)
    return answer if isinstance(answer, int) else exits.OK


if __name__ == "__main__":
    main()
