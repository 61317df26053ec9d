"""L97: what a process logs has no secret in it, whoever logs and however."""

from __future__ import annotations

import io
import logging
import uuid
from collections.abc import Iterator

import pytest

from perdure.upp.redacted_logs import redact_logs, without_credentials
from perdure.upp.redaction import known_secrets

VALUE = f"canary-{uuid.uuid4().hex}"


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger of somebody else's, and what its handler has written."""
    before = logging.getLogRecordFactory()
    known_secrets.register("it", VALUE)
    redact_logs()
    redact_logs()
    out, log = io.StringIO(), logging.getLogger("somebody.else")
    handler = logging.StreamHandler(out)
    log.addHandler(handler)
    yield log, out
    log.removeHandler(handler)
    logging.setLogRecordFactory(before)


def test_l97_messages_arguments_and_exceptions_are_redacted(logged: tuple[logging.Logger, io.StringIO]) -> None:
    log, out = logged
    log.error("whole " + VALUE)  # noqa: G003 - as others write it
    log.error("in %s and %d", [VALUE], 7)
    try:
        try:
            raise KeyError(VALUE)
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError:
        log.exception("failed", stack_info=True)
    text = out.getvalue()
    assert VALUE not in text
    assert "whole [redacted:it]\nin ['[redacted:it]'] and 7\nfailed\n" in text
    assert "KeyError: '[redacted:it]'" in text
    assert "ValueError: outer" in text
    assert "Stack (most recent call last)" in text


def test_what_holds_no_secret_is_logged_as_it_is(logged: tuple[logging.Logger, io.StringIO]) -> None:
    log, out = logged
    log.error("%s of %s", 1, 2)
    log.error("100 %")
    assert out.getvalue() == "1 of 2\n100 %\n"


@pytest.mark.parametrize(
    "text",
    [
        f"pdk_{'0' * 16}_{'x' * 43}",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.",
    ],
)
def test_l97_keys_and_tokens_of_callers_are_taken_out(text: str) -> None:
    assert without_credentials(f"Bearer {text}, then") == "Bearer [redacted], then"
