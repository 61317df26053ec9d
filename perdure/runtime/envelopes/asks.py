"""Beginning what an envelope asks for, and cancelling it: each may be done again, and is done once.

An ask is a run under a key that follows from its exchange; a subscription follows a session; a proposal that the agent
decides about is a run, too.
"""

from __future__ import annotations

import contextlib
import logging
from uuid import UUID

from perdure.errors import ServerUnavailable, UnknownRun, UnknownSession, UserError
from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.protocols.uamp_envelope.envelope import Envelope, read_envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.runtime.envelopes.bodies import check_body, message_of
from perdure.runtime.envelopes.ending import end_stream
from perdure.runtime.envelopes.faults import uamp_error
from perdure.runtime.envelopes.informs import standing_before
from perdure.runtime.envelopes.parts import DeskParts
from perdure.runtime.envelopes.proposals import DECIDING
from perdure.runtime.run_handle import RunHandle
from perdure.store.accepted import Accepted, find_accepted
from perdure.store.envelopes.beginning import begin_exchange
from perdure.store.envelopes.context import find_session
from perdure.store.envelopes.exchanges import find_by_envelope, opening_envelope
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.envelopes.session_senders import has_session
from perdure.store.sessions import read_session
from perdure.testing.crash import crash_point
from perdure.uap.options import RunOptions
from perdure.upp.json_value import JSONObject

logger = logging.getLogger(__name__)


def begins_by_itself(parts: DeskParts, intent: Intent) -> bool:
    """Whether what an envelope opens is begun without a person: all but proposals that one has to answer."""
    return intent is not Intent.PROPOSE or parts.rules.proposals == "agent"


async def begin(parts: DeskParts, row: ExchangeRow) -> ExchangeRow:
    """Begin what an exchange was opened for, if that has not been done; the exchange as it is then.

    What cannot be begun ends the exchange with an error.

    Raises:
        ServerUnavailable: a server does not answer; the sweep begins it later.
    """
    if row.session is not None or row.state.is_terminal:
        return row
    raw = await opening_envelope(parts.database, row)
    try:
        envelope = None if raw is None else read_envelope(raw, max_bytes=len(raw))
        if envelope is None:
            raise UnknownSession("the session was deleted before this was begun")
        begun = await (_follow if row.intent is Intent.SUBSCRIBE else _submit)(parts, row, envelope)
    except (UserError, UAMPError) as error:
        logger.info("envelope.failed exchange=%s %s", row.id, error)
        await end_stream(parts.streams, row.id, DeltaType.ERROR, uamp_error(error).to_json(), step=Step.ERROR)
        return row
    parts.signals.announce(row.id)
    if begun.state is State.CANCELLED:  # it came while this was on its way
        await cancel_run(parts, begun)
    return begun


async def followed_session(parts: DeskParts, own: str, envelope: Envelope) -> str:
    """The session that a subscription means.

    Raises:
        UAMPError: 4.04 if its sender has no such session, 4.00 if the body cannot be read.
    """
    found = await find_session(parts.database, parts.tenant, own, envelope.sender, _named(envelope))
    if found is not None:
        return found
    content = check_body(envelope, max_bytes=parts.rules.max_bytes)
    if content.type.partition(";")[0].strip().lower() == "application/json" and content.data:
        named = parse_object(content.data).get("session")
        if isinstance(named, str) and await has_session(parts.database, parts.tenant, own, envelope.sender, named):
            return named
    raise UAMPError(
        Code.UNKNOWN_STREAM,
        'name a session: by reply_to or context an envelope of yours that opened it, or by a body {"session": id}',
        ref=envelope.id_text,
    )


async def cancel_run(parts: DeskParts, row: ExchangeRow) -> None:
    """Cancel the run of an exchange that was cancelled. Where Temporal is away the sweep does it later."""
    if row.session is None or row.run is None:
        return
    try:
        with contextlib.suppress(UnknownSession, UnknownRun):
            await parts.sessions.cancel(row.session, run=row.run, wait_s=0)
    except ServerUnavailable as error:
        logger.warning("envelope.cancel_deferred exchange=%s %s", row.id, error)


async def _submit(parts: DeskParts, row: ExchangeRow, envelope: Envelope) -> ExchangeRow:
    """Hand in what an ask says. Its key makes it one run, whoever does this, and however often."""
    agent = await parts.own.agent_of(row.own)
    if agent is None:
        raise UAMPError(Code.UNKNOWN_STREAM, f"{row.own} is no agent of this server any more")
    accepted = await _accepted(parts, row, envelope, agent, await _session_before(parts, row, envelope))
    crash_point("envelope.submitted")
    begun = await begin_exchange(
        parts.database, parts.tenant, row.id, accepted.key.session, accepted.run, log_seq=accepted.after_seq
    )
    if begun is None:
        raise UnknownSession("the session was deleted while this was begun")
    crash_point("envelope.begun")
    return begun


async def _session_before(parts: DeskParts, row: ExchangeRow, envelope: Envelope) -> str | None:
    """The session that an ask goes on in: that of an envelope of its sender's that it names."""
    ids = _named(envelope)
    found = await find_session(parts.database, parts.tenant, row.own, row.sender, ids)
    if found is not None:
        return found
    for ident in ids:
        about = await find_by_envelope(parts.database, parts.tenant, row.own, row.sender, str(ident))
        if about is not None and _came_before(about, row) and begins_by_itself(parts, about.intent):
            return (await begin(parts, about)).session
    return None


def _came_before(one: ExchangeRow, other: ExchangeRow) -> bool:
    """Whether one was opened before another; so envelopes that name each other are not begun for ever."""
    return (one.opened_at, one.id) < (other.opened_at, other.id)


def _named(envelope: Envelope) -> list[UUID]:
    """The envelopes that another one names, the most important first."""
    replied = [] if envelope.reply_to is None else [envelope.reply_to]
    return [*replied, *(item.id for item in envelope.context)]


async def _accepted(
    parts: DeskParts, row: ExchangeRow, envelope: Envelope, agent: str, session: str | None
) -> Accepted:
    key = f"uamp:{row.id}"
    if session is not None:
        known = await find_accepted(parts.database, parts.sessions.key_of(session), key)
        if known is not None:
            return known
    handle: RunHandle = await parts.sessions.submit(
        agent,
        message_of(envelope, max_bytes=parts.rules.max_bytes),
        session=session,
        key=key,
        options=DECIDING if row.intent is Intent.PROPOSE else RunOptions(),
        metadata=None if session is not None else _metadata(row),
        before=() if session is None else await standing_before(parts, row, session),
    )
    return handle.accepted


def _metadata(row: ExchangeRow) -> JSONObject:
    return {"uamp": {"from": row.sender, "to": row.own}}


async def _follow(parts: DeskParts, row: ExchangeRow, envelope: Envelope) -> ExchangeRow:
    """Have a subscription follow its session, from now on."""
    session = await followed_session(parts, row.own, envelope)
    last = (await read_session(parts.database, parts.sessions.key_of(session))).last_seq
    begun = await begin_exchange(parts.database, parts.tenant, row.id, session, None, log_seq=last)
    if begun is None:
        raise UnknownSession("the session was deleted")
    return begun
