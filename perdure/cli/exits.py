"""How a command ends: the exit codes, and what is said of an error."""

from __future__ import annotations

import os

import typer

from perdure.cli.output import ReaderGone
from perdure.errors import PerdureError, ProtocolError, RunCancelled, ServerError, UserError

OK = 0
FAILED = 1
USAGE = 2
SERVER = 3
CANCELLED = 4
INTERRUPTED = 130
READER_GONE = 141

DEBUG_VARIABLE = "PERDURE_DEBUG"
EPILOG = """
Exit codes:
0 done;
1 the run failed, or doctor found something;
2 the command or a value in it cannot be used, or names what does not exist;
3 a server does not answer or cannot be started, or has another schema;
4 the run was cancelled;
130 interrupted by Ctrl-C;
141 the reader of the output went away.

Settings come from the environment (PERDURE_TEMPORAL_ADDRESS,
PERDURE_DATABASE_URL, PERDURE_TENANT, ...), else from \\[tool.perdure] in
pyproject.toml. Without addresses the servers are those that `perdure dev`
has started in this folder or one above. PERDURE_DEBUG=1 shows tracebacks.
"""


def code_of(error: BaseException) -> int:
    """The exit code for an error that ended a command."""
    if isinstance(error, ReaderGone):
        return READER_GONE
    if isinstance(error, typer.TyperException | UserError | ProtocolError):
        return USAGE
    if isinstance(error, ServerError):
        return SERVER
    return CANCELLED if isinstance(error, RunCancelled) else FAILED


def type_of(error: BaseException) -> str:
    """The error's type as programs see it; every wrong command line is one type."""
    return "UsageError" if isinstance(error, typer.TyperException) else type(error).__name__


def message_of(error: BaseException) -> str:
    """What was wrong and what to do."""
    if isinstance(error, typer.TyperException):
        return error.format_message()
    if isinstance(error, PerdureError):
        return str(error) or type(error).__name__
    shown = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{shown} (unexpected; with {DEBUG_VARIABLE}=1 the traceback is shown)"


def is_debugging() -> bool:
    """Whether the user asked for tracebacks."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
