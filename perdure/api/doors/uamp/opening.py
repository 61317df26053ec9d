"""Opening a session for a client, or going on with one that was opened before. Source: UAMP 1.0, sections 5.1 and 10."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.api.authentication import ANONYMOUS
from perdure.api.doors.uamp.cursor import WHOLE, Cursor
from perdure.api.doors.uamp.paying import Paying
from perdure.api.doors.uamp.services import Services
from perdure.api.principal import Principal
from perdure.errors import UnknownAgent, UnknownSession, UserError
from perdure.protocols.uamp_events.capabilities import Capabilities
from perdure.protocols.uamp_events.client_events import SessionCreate
from perdure.protocols.uamp_events.event_place import read_place
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.live_session import LiveSession, new_session
from perdure.protocols.uamp_events.stored_session import preloaded_token, session_of, state_of, without_tokens
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.runtime.uamp.chats import chat_session
from perdure.store.agents import AgentRow
from perdure.store.sessions import read_session
from perdure.store.uamp.held import held_session
from perdure.store.uamp.mail import read_mail
from perdure.store.uamp.opening import find_session, open_session
from perdure.store.uamp.responses import open_responses
from perdure.store.uamp.rows import NewUampSession, UampSessionRow
from perdure.uap.ids import is_uuid4, new_id
from perdure.uap.session_key import SessionKey

_RECENT = 900
"""Events of a session's mail among which the last one that its client had is looked for."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A session that is open.

    Attributes:
        row: its row.
        live: its state.
        capabilities: the server's, in it.
        replies: what its client is told besides, behind session.created and capabilities.
        is_resumed: it was open before.
        responses: those that are open, oldest first.
        start: behind which its client is told, if it says what it has had; else where it was told last.
    """

    row: UampSessionRow
    live: LiveSession
    capabilities: Capabilities
    replies: list[ServerEvent]
    is_resumed: bool
    responses: list[str] = field(default_factory=list[str])
    start: Cursor | None = None


async def opening(services: Services, known: Principal | None, ident: str, event: SessionCreate) -> Opening:
    """The session that an event asks for.

    Args:
        services: of the process.
        known: who the connection is known to be.
        ident: of the session, if it is a new one.
        event: what asks.

    Raises:
        EventRefused: it is not opened.
    """
    principal = await services.caller_of(event.token, known)
    if event.session.id is not None:
        return await _resumed(services, principal, event.session.id, event)
    try:
        agent = await services.agent(principal.tenant, event.agent)
        key = await _chat(services, principal, agent, event.chat, ident)
    except UnknownAgent as error:
        raise EventRefused(Code.AGENT_OFFLINE, str(error)) from error
    except UserError as error:
        raise EventRefused(Code.INVALID_EVENT, str(error)) from error
    capabilities = services.capabilities_of(agent)
    paying = Paying(services, principal.tenant, agent.name, ident)
    source, replies = await paying.preload(preloaded_token(event))
    live = new_session(ident, without_tokens(event), new_id)
    live.has_own_token = event.token is not None
    live.server = capabilities
    anonymous = principal.name == ANONYMOUS
    row, _ = await open_session(
        services.database,
        NewUampSession(
            tenant=principal.tenant,
            id=ident,
            session=key.session,
            agent=agent.name,
            principal=principal.name,
            user=ident if anonymous else principal.name,
            username=None if anonymous else principal.name,
            chat=event.chat,
            state=state_of(live),
            token_expires_at=principal.expires_at,
            payment=source,
            told_log=(await read_session(services.database, key)).last_seq,
        ),
    )
    live.version = row.version
    return Opening(row, live, capabilities, replies, is_resumed=False)


async def _chat(services: Services, principal: Principal, agent: AgentRow, chat: str | None, ident: str) -> SessionKey:
    """The session that a chat is: one of this agent's that is named by its id, else that of the chat's name."""
    sessions = services.sessions(principal.tenant)
    if chat is not None and is_uuid4(chat):
        try:
            named = await read_session(services.database, sessions.key_of(chat))
        except UnknownSession:
            pass
        else:
            if named.agent == agent.name:
                return named.key
    session = chat_session(principal.tenant, agent.name, chat, ident)
    await sessions.open(agent.name, session=session)
    return SessionKey(principal.tenant, session)


async def _resumed(services: Services, principal: Principal, ident: str, event: SessionCreate) -> Opening:
    row = await find_session(services.database, principal.tenant, ident)
    if row is None or row.principal != principal.name or row.ended_at is not None:
        raise EventRefused(
            Code.SESSION_NOT_FOUND, f"no session {ident[:200]!r} of yours is open; leave 'id' out to open another"
        )
    agent = await _registered(services, row)
    paying = Paying(services, row.tenant, row.agent, row.id)
    source, replies = await paying.preload(preloaded_token(event))
    async with held_session(services.database, row.tenant, ident) as held:
        assert held is not None
        live = session_of(ident, held.row.state, await held.inputs())
        live.created = live.created.model_copy(update={"event_id": event.event_id})
        live.has_own_token = event.token is not None
        live.server = services.capabilities_of(agent)
        if event.client_capabilities is not None:
            live.client = event.client_capabilities
        await held.change(state=state_of(live), token_expires_at=principal.expires_at)
        if source is not None:
            await held.change(payment=source)
        row = held.row
    live.version = row.version
    responses = [item.id for item in await open_responses(services.database, row.key) if item.uamp_session == row.id]
    start = await _start(services, row, event.session.last_event_id)
    return Opening(row, live, live.server, replies, is_resumed=True, responses=responses, start=start)


async def _start(services: Services, row: UampSessionRow, last: str | None) -> Cursor | None:
    """Where a client stands by the id of the last event that it had; None if that tells nothing."""
    if last is None:
        return None
    for item in await read_mail(services.database, row.tenant, row.id, after=max(0, row.last_mail - _RECENT)):
        if item.data["event_id"] == last:
            return Cursor(row.told_log, WHOLE, item.seq)
    place = read_place(last)
    newest = (await read_session(services.database, row.key)).last_seq
    if place is None or not 0 < place.seq <= newest:
        return None
    return Cursor(place.seq, place.part, row.told_mail)


async def _registered(services: Services, row: UampSessionRow) -> AgentRow:
    try:
        return await services.agent(row.tenant, row.agent)
    except UnknownAgent as error:
        raise EventRefused(Code.AGENT_OFFLINE, str(error)) from error
