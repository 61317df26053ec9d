"""Arguments and options that several commands share, and what each of them must be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated

import typer

from perdure.errors import InvalidInput, UnknownSession
from perdure.uap.ids import is_uuid4
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject

AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON document on stdout.")]
Tls = Annotated[
    bool,
    typer.Option(
        "--tls",
        help="Speak TLS 1.3: with the configured certificate, else with one of `perdure certs` that is made here.",
    ),
]
Target = Annotated[str, typer.Argument(metavar="MODULE:APP", help="The app, for example agents:app.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
StageSessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The stage session's id.")]
SessionLimit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit", metavar="NAME=NUMBER",
        help="What all runs of the session may use: max_steps, max_total_tokens, max_cost or max_duration (seconds).",
    ),
]  # fmt: skip
SessionOption = Annotated[str | None, typer.Option("--session", metavar="ID", help="Only of this session.")]


def checked_run_id(text: str) -> str:
    """A run's id as a caller gave it.

    Raises:
        InvalidInput: no run can have it.
    """
    lowered = text.strip().lower()
    if not is_uuid4(lowered):
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise InvalidInput(f"run id {shown!r} is not a UUIDv4; `perdure sessions show SESSION` lists a session's runs")
    return lowered


def no_stage_session(text: str) -> UnknownSession:
    """The error of a stage session that there is not."""
    shown = text if len(text) <= 40 else text[:40] + "…"
    return UnknownSession(f"no stage session {shown!r}; `perdure stages list` lists them")


def checked_limits(pairs: Sequence[str] | None) -> SessionLimits | None:
    """A session's limits; None if there are none.

    Raises:
        InvalidInput: no NAME=NUMBER, or a limit that does not exist or can be none.
    """
    if not pairs:
        return None
    limits: JSONObject = {}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        try:
            limits[name] = number if name == "max_cost" else json.loads(number)
        except ValueError:
            equals = ""
        if not equals:
            raise InvalidInput(f"--limit {pair[:40]!r} must be NAME=NUMBER, such as max_steps=100")
    return SessionLimits.from_json(limits)


def checked_cost(text: str) -> Decimal:
    """An amount of money, in the currency of the table of prices.

    Raises:
        InvalidInput: it is no number.
    """
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidInput(f"--max-cost is {text[:40]!r}; it must be a decimal such as 0.50") from None


def checked_text(text: str, what: str) -> str:
    """A value that must be text in the terminal's encoding.

    Raises:
        InvalidInput: it has bytes that are no text, or nothing but blanks.
    """
    if not text.strip():
        raise InvalidInput(f"{what} is empty; leave it out, or give it a value")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} has bytes that are not UTF-8 text; check the terminal's encoding") from None
    return text
