"""Log lines of errors."""

from __future__ import annotations

import logging

import pytest

from perdure.cli.logs import set_up_logs
from perdure.errors import ModelError


@pytest.fixture
def formatter(monkeypatch: pytest.MonkeyPatch) -> logging.Formatter:
    """The formatter of a process that is not being debugged."""
    monkeypatch.delenv("PERDURE_DEBUG", raising=False)
    monkeypatch.setattr(logging.root, "handlers", [])
    set_up_logs()
    formatter = logging.root.handlers[0].formatter
    assert formatter
    return formatter


def logged(formatter: logging.Formatter, cause: Exception) -> str:
    try:
        raise RuntimeError("as Temporal sees it") from cause
    except RuntimeError as error:
        info = (type(error), error, error.__traceback__)
    return formatter.format(logging.LogRecord("x", logging.WARNING, "", 0, "failed", None, info))


def test_an_error_of_ours_is_one_line(formatter: logging.Formatter) -> None:
    assert logged(formatter, ModelError("no key")) == "WARNING x failed\n    ModelError: no key"


def test_a_bug_has_its_traceback(formatter: logging.Formatter) -> None:
    assert "Traceback" in logged(formatter, KeyError("x"))
