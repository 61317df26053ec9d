"""Sessions that begin with something: with a history, or as a document from elsewhere; and their way out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

from perdure.activities.redaction import clean_messages, clean_metadata
from perdure.protocols.threadprotocol.models import Thread
from perdure.runtime.session_document import document_pieces, session_document
from perdure.runtime.session_import import import_document
from perdure.runtime.session_servers import SessionServers
from perdure.runtime.threads.incoming import AS_THEY_ARE, ReadThreads, ThreadReading, read_threads
from perdure.runtime.threads.outgoing import session_threads
from perdure.store.agents import find_agent
from perdure.store.opening import Opening, open_session
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey, checked_session_id
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import Message
from perdure.upp.redaction import known_secrets


class SessionTransfer(SessionServers):
    """How sessions come to be without a run, and how they are read whole."""

    async def open(
        self,
        agent_name: str,
        *,
        session: str | None = None,
        metadata: Mapping[str, JSONValue] | None = None,
        title: str | None = None,
        history: Sequence[Message] = (),
        limits: SessionLimits | None = None,
    ) -> str:
        """Open a session without an input, or find it open, and return its id.

        Args:
            agent_name: a worker must have registered the agent.
            session: a UUIDv4; drawn if left out. Again with the same one is the same session.
            metadata: the user's own data, JSON, of a session that this opens; likewise
            title: for lists.
            history: what was said before, oldest first; it is stored once, as the beginning of the root's thread.
            limits: what all its runs may use together, of a session that this opens.

        Raises:
            InvalidInput: an id that cannot be used.
            UnknownAgent: no worker has registered the agent.
            UnknownSession: the session is there and belongs to another agent.
            KeyConflict: the session is there and was opened with another history.
            SessionGone: the session is being deleted.
        """
        row = await find_agent(self.database, self.tenant, agent_name)
        key = SessionKey(self.tenant, new_id() if session is None else checked_session_id(session))
        opening = Opening(
            row.name,
            row.agent_id,
            history=clean_messages(history),
            title=known_secrets.json(title),
            metadata=clean_metadata(metadata),
            limits=limits,
        )
        await open_session(self.database, key, opening)
        return key.session

    async def document(self, session: str) -> JSONObject:
        """Return a session's SessionJSON, whole. Source: UAP-1.0 section 13.1.

        Raises:
            UnknownSession: there is none.
            DamagedSession: a body is missing or does not have its hash.
        """
        return await session_document(self.database, self.key_of(session))

    async def export(self, session: str) -> AsyncGenerator[bytes, None]:
        """The bytes of a session's SessionJSON, in pieces: messages a few at a time, and one checkpoint at a time.

        Raises:
            UnknownSession: there is none; nothing has been given then.
            DamagedSession: a body is missing or does not have its hash.
        """
        async for piece in document_pieces(self.database, self.key_of(session)):
            yield piece

    async def import_session(
        self, document: JSONValue, agent_name: str, *, metadata: Mapping[str, JSONValue] | None = None
    ) -> str:
        """Store a session from elsewhere, whole or not at all, and return its id, which stays what it is.

        Args:
            document: a SessionJSON, or its text.
            agent_name: who goes on with it; a worker must have registered the agent. The document's agentId is kept.
            metadata: added to the session's own.

        Raises:
            InvalidInput: it is no session, or there is a session of that id; the message begins with the JSON path of
                what is wrong.
            UnknownAgent: no worker has registered the agent.
        """
        row = await find_agent(self.database, self.tenant, agent_name)
        return await import_document(
            self.database, self.tenant, row.name, known_secrets.json(document), clean_metadata(metadata) or {}
        )

    async def threads(self, session: str) -> list[Thread]:
        """Return a session as threads of ThreadProtocol, one for each node of its tree, parents first.

        Raises:
            UnknownSession: there is none.
            DamagedSession: a body is missing or does not have its hash.
            InvalidThread: something in it cannot be said in a thread.
        """
        return await session_threads(self.database, self.key_of(session))

    async def import_threads(
        self,
        value: JSONValue,
        agent_name: str,
        *,
        reading: ThreadReading = AS_THEY_ARE,
        session: str | None = None,
        metadata: Mapping[str, JSONValue] | None = None,
    ) -> tuple[str, ReadThreads]:
        """Store a thread of ThreadProtocol, or several that are a tree, as a session, whole or not at all.

        Args:
            value: a thread's JSON, or a list of them.
            agent_name: who goes on with it; a worker must have registered the agent.
            reading: how they are read.
            session: a UUIDv4; drawn if left out.
            metadata: of the session; the root thread's title is added to it as `title` unless it has one.

        Returns:
            The session's id, and what was read.

        Raises:
            InvalidThread: a thread breaks the rules; it has all problems, each with its path and remedy.
            InvalidInput: the threads are no tree, or there is a session of that id.
            UnknownAgent: no worker has registered the agent.
        """
        row = await find_agent(self.database, self.tenant, agent_name)
        ident = None if session is None else checked_session_id(session)
        read = read_threads(known_secrets.json(value), row.name, reading, session=ident)
        kept = {"title": read.title, **(clean_metadata(metadata) or {})}
        return await import_document(self.database, self.tenant, row.name, read.document, kept), read
