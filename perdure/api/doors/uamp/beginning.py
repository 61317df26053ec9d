"""Beginning the run of a response that a client asked for: of what is stored alone, so that any process does it again.

The response's id is the input's key. Source: UAMP 1.0, sections 5.6, 5.12 and 8.5.1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from perdure.api.doors.uamp.services import Services, now_ms
from perdure.errors import ServerError, UserError
from perdure.protocols.uamp_events.content_items import ContentItem
from perdure.protocols.uamp_events.conversation import Clock, Turn, turn_of
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.input_buffer import TurnInput
from perdure.protocols.uamp_events.server_events import ResponseError, WireError
from perdure.protocols.uamp_events.stored_session import stored_turn
from perdure.protocols.uamp_events.upp_blocks import urls_to_fetch
from perdure.runtime.content import fetch_media, keep_turn
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.database import is_away
from perdure.store.uamp.opening import find_session
from perdure.store.uamp.responses import end_response, find_unbegun, response_inputs, set_begun
from perdure.store.uamp.rows import ResponseRow
from perdure.testing.crash import crash_point
from perdure.uap.ids import new_id
from perdure.uap.options import RunOptions
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import UserMessage

logger = logging.getLogger(__name__)

PAYMENT = "payment"
"""Of a stored input: what its interaction is paid from, in place of the token that came with it."""

_LOOKS_S = 2.0
_ABANDONED = timedelta(seconds=10)


async def begin(services: Services, row: ResponseRow) -> RunHandle:
    """Hand a response's input in. Harmless if it has been done.

    Raises:
        EventRefused: content that cannot be used.
        UserError: the input cannot be taken.
        ServerError: a server is away; what is stored is begun later.
    """
    inputs = await response_inputs(services.database, row)
    session = await find_session(services.database, row.tenant, row.uamp_session)
    assert session is not None, "a response belongs to its session"
    sessions = services.sessions(row.tenant)
    given = await keep_turn(sessions, stored_turn(row.uamp_session, inputs), made_by=session.principal)
    turn = await _turn(sessions, given)
    handle = await sessions.submit(
        session.agent,
        turn.user or UserMessage(""),
        session=row.session,
        key=row.id,
        options=_options(row, inputs, turn, given),
        thread=turn.history,
        before=turn.before,
    )
    crash_point("uamp.submitted")
    await set_begun(services.database, row, handle.id)
    return handle


async def _turn(sessions: Sessions, given: TurnInput) -> Turn:
    """The turn that a run takes. A history that is all there is ends with the message that is answered."""
    urls = urls_to_fetch(_items(given))
    fetched = await fetch_media(sessions, urls) if urls else {}
    turn = turn_of(given, Clock(new_id, datetime.now(UTC)), fetched)
    if turn.user is None and not turn.before and turn.history and isinstance(turn.history[-1], UserMessage):
        return replace(turn, user=turn.history[-1], history=turn.history[:-1])
    return turn


def _items(given: TurnInput) -> Iterable[ContentItem]:
    for message in [*(given.history or ()), *given.messages]:
        yield from message.items()


def _options(row: ResponseRow, inputs: list[JSONObject], turn: Turn, given: TurnInput) -> RunOptions:
    """The run's options: what was asked, what the history's system messages say, and what it is paid from."""
    options = RunOptions.from_json(row.asked["options"])
    of_history = turn.instructions[: len(turn.instructions) - len(given.system)]
    texts = [text for text in (options.instructions, *of_history) if text]
    paid = [source[PAYMENT] for source in inputs if PAYMENT in source]
    payment = paid[-1] if paid else row.asked.get(PAYMENT)
    options = replace(options, instructions="\n\n".join(texts) or None)
    return options if payment is None else replace(options, payment=cast("dict[str, Any]", payment))


async def keep_beginning(services: Services) -> None:
    """Begin, until cancelled, what processes that have died were to begin."""
    while True:
        await asyncio.sleep(_LOOKS_S)
        try:
            for row in await find_unbegun(services.database, older_than=_ABANDONED):
                await _begin_left(services, row)
        except Exception as error:
            if not is_away(error):
                logger.exception("uamp.begin_failed")


async def _begin_left(services: Services, row: ResponseRow) -> None:
    try:
        await begin(services, row)
    except (EventRefused, UserError) as error:
        await services.backend.chats(row.tenant).post(
            row.uamp_session, [(await refused_response(services, row, error)).to_json()], notes=[f"refused {row.id}"]
        )
    except ServerError as error:
        logger.warning("uamp.begin_deferred response=%s %s", row.id, error)


async def refused_response(services: Services, row: ResponseRow, error: EventRefused | UserError) -> ResponseError:
    """The end of a response whose input could not be handed in."""
    await end_response(services.database, row.tenant, row.id)
    code = error.code if isinstance(error, EventRefused) else Code.INVALID_EVENT
    details = error.details if isinstance(error, EventRefused) else None
    return ResponseError(
        event_id=new_id(),
        timestamp=now_ms(),
        session_id=row.uamp_session,
        response_id=row.id,
        error=WireError(code=code, message=str(error), details=details),
    )
