"""The exit codes of every command, and the one line that goes with each error."""

from __future__ import annotations

import os

import typer

from perdure.errors import PerdureError, RunCancelled, ServerError, UserError

OK = 0
FAILED = 1
USAGE = 2
SERVER = 3
CANCELLED = 4
INTERRUPTED = 130
READER_GONE = 141

DEBUG_VARIABLE = "PERDURE_DEBUG"
EPILOG = """
Exit codes: 0 done; 1 the run failed, or `doctor` found something; 2 the command or a value in it cannot be used, or names
something that does not exist; 3 a server does not answer, its schema is of another version, or an embedded server cannot
be started; 4 the run was cancelled; 130 interrupted by Ctrl-C; 141 the reader of the output went away.

Settings come from the environment (PERDURE_TEMPORAL_ADDRESS, PERDURE_DATABASE_URL, PERDURE_TENANT, ...), else from
\\[tool.perdure] in pyproject.toml, else from the servers that `perdure dev` runs in this folder or one above.
PERDURE_DEBUG=1 shows the traceback of an error.
"""


def code_of(error: BaseException) -> int:
    """The exit code for an error that ended a command."""
    if isinstance(error, typer.TyperException | UserError):
        return USAGE
    if isinstance(error, ServerError):
        return SERVER
    return CANCELLED if isinstance(error, RunCancelled) else FAILED


def line_of(error: BaseException) -> str:
    """What to say of an error: what was wrong and what to do."""
    if isinstance(error, typer.TyperException):
        return error.format_message()
    if isinstance(error, PerdureError):
        return str(error) or type(error).__name__
    shown = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{shown} (a fault of Perdure or of the app; {DEBUG_VARIABLE}=1 shows where)"


def is_debugging() -> bool:
    """Whether the user asked for tracebacks."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
