"""What `inform` and `notify` say to an agent in whose session they belong: told once, without a run of its own.

If the session's run is active it joins that one. Else it stands before the message of the session's next ask.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from perdure.errors import UnknownSession, UserError
from perdure.protocols.uamp_envelope.envelope import read_envelope
from perdure.runtime.envelopes.bodies import message_of
from perdure.runtime.envelopes.parts import DeskParts
from perdure.store.accepted import find_accepted
from perdure.store.envelopes.informs import note_joined, take_inform, take_informs
from perdure.store.envelopes.neglected import free_inform
from perdure.store.envelopes.rows import EnvelopeRow, ExchangeRow
from perdure.store.policies import STEER
from perdure.store.sessions import SessionRow, read_session
from perdure.store.withdrawing import withdraw
from perdure.testing.crash import crash_point
from perdure.uap.ids import derive_id
from perdure.upp.messages import UserMessage

logger = logging.getLogger(__name__)


async def join_active(parts: DeskParts, row: EnvelopeRow) -> bool:
    """Have an inform join the active run of its session, if there is one; whether it has.

    Raises:
        ServerUnavailable: a server does not answer; the sweep does it later.
    """
    session = await _session(parts, row)
    if session is None or session.active_run is None or not await take_inform(parts.database, row):
        return False
    crash_point("envelope.inform_taken")
    return await _steer(parts, row, session)


async def finish_joining(parts: DeskParts, row: EnvelopeRow) -> None:
    """Do the rest of what somebody began who had taken an inform, and died."""
    session = await _session(parts, row)
    if session is None:
        return
    if session.active_run is None and await find_accepted(parts.database, session.key, _key(row)) is None:
        await free_inform(parts.database, row)
    else:
        await _steer(parts, row, session)


async def standing_before(parts: DeskParts, exchange: ExchangeRow, session: str) -> Sequence[UserMessage]:
    """What stands before the message of an exchange: what was told since the session's last ask. The same each time."""
    rows = await take_informs(parts.database, parts.tenant, session, exchange=exchange.id)
    return [_message(parts, row) for row in rows if row.raw]


async def _session(parts: DeskParts, row: EnvelopeRow) -> SessionRow | None:
    """The session of an inform; None if it has none, or none any more."""
    if row.session is None or not row.raw:
        return None
    try:
        return await read_session(parts.database, parts.sessions.key_of(row.session))
    except UnknownSession:
        return None


async def _steer(parts: DeskParts, row: EnvelopeRow, session: SessionRow) -> bool:
    """Hand an inform in that was taken for this; one that comes too late for the run is free again."""
    message, place = _message(parts, row), session.key.session
    try:
        handle = await parts.sessions.submit(session.agent, message, session=place, key=_key(row), policy=STEER)
    except UserError as error:  # the session is being deleted, or takes no more
        logger.info("inform.refused session=%s %s", place, error)
        await free_inform(parts.database, row)
        return False
    crash_point("envelope.inform_submitted")
    accepted = handle.accepted
    is_late = accepted.target is None and await withdraw(parts.database, accepted.key, accepted.run)
    if is_late or accepted.action == "withdrawn":
        parts.sessions.announcer.changed(accepted.key)
        await free_inform(parts.database, row)
        return False
    await note_joined(parts.database, [row])
    logger.info("inform.joined session=%s run=%s", place, accepted.target or accepted.run)
    return True


def _key(row: EnvelopeRow) -> str:
    return f"uamp:{derive_id('uamp inform', row.own, row.sender, row.id)}"


def _message(parts: DeskParts, row: EnvelopeRow) -> UserMessage:
    envelope = read_envelope(row.raw, max_bytes=len(row.raw))
    return message_of(envelope, max_bytes=parts.rules.max_bytes)
