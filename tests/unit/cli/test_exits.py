"""Exit codes and messages of errors."""

from __future__ import annotations

import pytest
import typer

from perdure import errors
from perdure.cli.exits import code_of, message_of, type_of
from perdure.cli.output import ReaderGone
from perdure.upp.errors import ErrorCode, UPPError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidInput("x"), 2),
        (errors.UnknownAgent("x"), 2),
        (errors.KeyConflict("x"), 2),
        (errors.RunActive("x", run_id="r"), 2),
        (typer.BadParameter("x"), 2),
        (errors.ServerUnavailable("x"), 3),
        (errors.SchemaOutdated("x"), 3),
        (errors.EmbeddedError("x"), 3),
        (errors.RunCancelled("x"), 4),
        (errors.LimitExceeded("x"), 1),
        (errors.DamagedSession("x"), 1),
        (UPPError("x", ErrorCode.TIMEOUT, "p"), 1),
        (KeyError("x"), 1),
        (ReaderGone(), 141),
    ],
)
def test_each_kind_of_error_has_its_code(error: Exception, code: int) -> None:
    assert code_of(error) == code


def test_an_error_of_ours_speaks_for_itself() -> None:
    assert message_of(errors.InvalidInput("limit is 0; it must be 1 to 9")) == "limit is 0; it must be 1 to 9"
    assert message_of(errors.InvalidInput()) == "InvalidInput"


def test_any_other_error_is_named_and_its_traceback_offered() -> None:
    assert message_of(KeyError("x")).startswith("KeyError: 'x' (")
    assert "PERDURE_DEBUG=1" in message_of(KeyError("x"))


def test_every_wrong_command_line_is_one_type() -> None:
    assert type_of(typer.BadParameter("x")) == "UsageError"
    assert type_of(errors.KeyConflict("x")) == "KeyConflict"
