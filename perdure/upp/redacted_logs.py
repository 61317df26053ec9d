"""A process's log without the secrets that it knows."""

from __future__ import annotations

import logging
import re
import traceback
from typing import Any

from perdure.upp.redaction import known_secrets

# Perdure's own keys, and tokens of three parts. Nobody registers them: they are the callers'.
_CREDENTIAL = re.compile(r"\bpdk_[0-9a-f]+_[\w-]{20,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*")


def redact_logs() -> None:
    """Take secrets and credentials out of every record that is made from now on, whoever logs and whatever handles it.

    Of a record its message, its exception and its stack are looked at; not what `extra` adds, which no formatter of ours
    shows. Harmless if it has been done.
    """
    before = logging.getLogRecordFactory()
    if getattr(before, "is_redacted", False):
        return

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        return _redacted(before(*args, **kwargs))

    make.is_redacted = True  # pyright: ignore[reportFunctionMemberAccess]
    logging.setLogRecordFactory(make)


def without_credentials(text: str) -> str:
    """The text without secrets, keys of Perdure's and tokens."""
    return _CREDENTIAL.sub("[redacted]", known_secrets.text(text))


def _redacted(record: logging.LogRecord) -> logging.LogRecord:
    try:
        message = record.getMessage()
    except (TypeError, ValueError):  # its handler says what is wrong with it
        return record
    shown = without_credentials(message)
    if shown != message:
        record.msg, record.args = shown, None
    if record.exc_info and record.exc_info[1] is not None:
        trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if (shown := without_credentials(trace)) != trace:
            record.exc_info, record.exc_text = None, shown
    if record.stack_info:
        record.stack_info = without_credentials(record.stack_info)
    return record
