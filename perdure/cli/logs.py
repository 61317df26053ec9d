"""Log lines of a command: on stderr, warnings only, without the traceback of an error that is no fault of the code."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TypeAlias

from perdure.cli.exits import is_debugging
from perdure.errors import PerdureError
from perdure.upp.redacted_logs import redact_logs

_FORMAT = "%(levelname)s %(name)s %(message)s"
_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def set_up_logs() -> None:
    """Log to stderr, without secrets; with PERDURE_DEBUG=1 everything else there is to know."""
    redact_logs()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT) if is_debugging() else _Short(_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class _Short(logging.Formatter):
    """Names an error of ours in one line: a model that refuses its key is told from a bug by having no traceback."""

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - the method of logging.Formatter
        """See base class."""
        error = ei[1]
        if error is not None and isinstance(error.__cause__ or error, PerdureError):
            return f"    {type(error.__cause__ or error).__name__}: {error.__cause__ or error}"
        return super().formatException(ei)
