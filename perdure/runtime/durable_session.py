"""A session of a connection: stored, carried out by workers, and shown to its user by a mirror in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from perdure.errors import InvalidInput, ServerError, UnknownSession, UserError
from perdure.runtime.mirrored_tree import MirroredTree, TreeChange
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.run_stream import RunStreams
from perdure.runtime.session_metadata import MetadataMirror
from perdure.runtime.session_mirror import MirroredSession, SessionMirror
from perdure.runtime.sessions import Sessions
from perdure.runtime.shown_checkpoints import ShownCheckpoints
from perdure.store.change_inputs import read_outcome
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.ids import root_node_id
from perdure.uap.options import RunOptions
from perdure.uap.session import Session
from perdure.uap.session_checkpoints import Checkpoint
from perdure.uap.session_document import SessionDocument
from perdure.uap.session_key import SessionKey
from perdure.uap.session_options import SessionOptions, json_metadata
from perdure.uap.session_usage import SessionUsage
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, UserMessage
from perdure.upp.thread import Thread
from perdure.upp.turn import Turn


class DurableSession(Session):
    """A stored session. Made by `session(...)` inside `async with connect():`.

    What is awaited reads what is new first, or last; what is not shows what was read. Changes of the tree and of the
    metadata are made at once in what is shown, and handed in, in their order, by the next call that is awaited.
    """

    def __init__(
        self,
        sessions: Sessions,
        streams: RunStreams,
        agent: Agent,
        options: SessionOptions,
        document: SessionDocument | None = None,
    ) -> None:
        """See `SessionHost.open_session`."""
        _name(agent)
        self._to_import = None if document is None else Session(agent, options, document=document).to_json()
        super().__init__(agent, options, document=document)
        self._sessions = sessions
        self._streams = streams
        self._shown = ShownCheckpoints(options.interval)
        self._known_new = options.id is None and document is None
        self._stored = False
        self._new_limits = options.limits
        self._recorded: list[int] = []
        self._changes: list[TreeChange] = []
        tree = self.thread_tree if document is not None else _empty_tree(self._id)
        self.thread_tree: ThreadTree = (mirrored := MirroredTree(tree, self._changes.append))
        self._key = SessionKey(sessions.tenant, self._id)
        self._mirror = SessionMirror(sessions.database, self._key, mirrored)
        self._metadata = MetadataMirror(sessions.database, self._key)
        self._syncing = asyncio.Lock()

    async def run(self, input: str | Message, /, *, options: RunOptions | None = None) -> Turn:
        """See `Session.run`. Workers carry it out, also if this process ends: another one finds its turn in the thread.

        Raises:
            UnknownAgent: no worker has registered the agent.
            Exception: what failed the run, as `Session.run`.
        """
        message = UserMessage(input) if isinstance(input, str) else input
        async with self._working():
            handle = await self._submit(message, options)
            return await handle.result()

    def stream(
        self, input: str | Message, /, *, options: RunOptions | None = None, sub_agents: bool = False
    ) -> AgentStreamResult:
        """See `Session.stream`. The event log is followed, across restarts of workers and servers."""
        message = UserMessage(input) if isinstance(input, str) else input
        if self.agent.custom is not None:
            options = replace(options or RunOptions(), stream=True)
        return self._streams.open(
            lambda: self._submit(message, options), self.agent.id, message,
            around=self._working, choice=self._shown.of_stream(), sub_agents=sub_agents,
        )  # fmt: skip

    async def resume(self, *, options: RunOptions | None = None) -> Turn:
        """See `Session.resume`. The run goes on on a branch, under an id of its own."""
        async with self._working():
            checkpoint = self._resumable()
            handle = await self._sessions.resume_run(self._id, checkpoint.id, options)
            return await handle.result()

    async def restore(self, checkpoint_id: str) -> None:
        """See `Session.restore`. It takes its turn among the session's inputs, behind those that were handed in before."""
        async with self._working():
            checkpoint = self._checkpoints.find(checkpoint_id)
            made = await self._sessions.restore(self._id, checkpoint.id)
            self._note_recorded(made)

    async def refresh(self) -> None:
        """See `Session.refresh`. Changes that wait are handed in first."""
        await self._ready()
        await self._news()

    async def save(self) -> None:
        """Store what waits to be stored, and put a copy into the user's own adapter if there is one.

        Raises:
            InvalidInput: metadata holds something that is not JSON, or a change that was waiting cannot be made.
            Exception: what the adapter raises.
        """
        await self._ready(create=True)
        await self._news()
        if self._saving.is_readable:
            await self._saving.save()

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """See `Session.checkpoints`; with an interval of "turn" the last of each turn, with none none."""
        return self._shown.choose(self._checkpoints.items, self._mirror.is_kept)

    @property
    def current_checkpoint(self) -> Checkpoint | None:
        """See `Session.current_checkpoint`."""
        return None if self._interval is None else self._checkpoints.current

    async def _submit(self, message: Message, options: RunOptions | None) -> RunHandle:
        return await self._sessions.submit(
            _name(self.agent), message, session=self._id, create=not self._stored, options=options,
            limits=self._new_limits,
        )  # fmt: skip

    @asynccontextmanager
    async def _working(self) -> AsyncGenerator[None]:
        """One thing at a time, with what waits handed in before and what is new read after, also if it failed."""
        async with self._alone():
            await self._ready()
            try:
                yield
            except ServerError:  # nothing can be read now; the next call reads it
                raise
            except Exception:
                await self._news()
                raise
            await self._news()
            await self._saving.save_unasked()

    async def _ready(self, *, create: bool = False) -> None:
        """Find the session, or open it if something is to be stored in it, and hand in what waits."""
        if self._streams.closed:
            raise ServerError(
                f"the connection of session {self._id!r} is closed; open it again: session(agent, id=...)"
            )
        async with self._syncing:
            metadata = json_metadata(self.metadata)
            if self._to_import is not None:
                await self._import(self._to_import)
                self._to_import = None
            elif not self._stored and not self._known_new:
                await self._look()
            if not self._stored and (create or metadata or self._changes):
                limits = self._new_limits
                await self._sessions.open(_name(self.agent), session=self._id, metadata=metadata, limits=limits)
                self._stored, self._new_limits = True, None
            if self._stored and self._new_limits is not None:
                await self._sessions.patch(self._id, limits=self._new_limits)
                self._new_limits = None
            while self._changes:
                await self._hand_in(self._changes[0])
            if self._stored:
                await self._metadata.write(metadata)

    async def _hand_in(self, change: TreeChange) -> None:
        try:
            made = await self._sessions.change(self._id, change.kind, change.detail, key=change.key)
        except UserError:  # it cannot be made, now or later; the tree goes back to what is stored
            self._changes.remove(change)
            await self._look()
            raise
        self._changes.remove(change)
        self._note_recorded(made)

    def _note_recorded(self, made: JSONObject) -> None:
        """Where no worker has come to a change yet, it is made before the next run, and shown until then."""
        if made.get("state") == "recorded":
            self._recorded.append(int(str(made["input"])))

    async def _import(self, document: JSONObject) -> None:
        try:
            await self._sessions.import_session(document, _name(self.agent))
        except InvalidInput:
            if not await self._is_stored_so(document):
                raise
        self._known_new = False
        self._stored = True

    async def _is_stored_so(self, document: JSONObject) -> bool:
        try:
            return await self._sessions.document(self._id) == document
        except UnknownSession:
            return False

    async def _news(self) -> None:
        async with self._syncing:
            await self._look()

    async def _is_made(self, place: int) -> bool:
        return await read_outcome(self._sessions.database, self._key, place) is not None

    async def _look(self) -> None:
        """Read what is new. A tree whose changes still wait goes on showing them."""
        self._recorded = [place for place in self._recorded if not await self._is_made(place)]
        found = await self._mirror.refresh(ahead=bool(self._recorded or self._changes))
        if found is None:
            return
        self._stored = True
        self._take(found)

    def _take(self, found: MirroredSession) -> None:
        self._agent_id = found.row.agent_id
        self._created_at, self._updated_at = found.created_at, found.updated_at
        self._checkpoints.items = self._mirror.checkpoints
        self._checkpoints.current = found.current
        self._usage = SessionUsage(found.usage_by_agent)
        self._metadata.take(found.row.metadata, self.metadata)


def _name(agent: Agent) -> str:
    if agent.name is None:
        raise InvalidInput("a durable session needs an agent with a name that a worker serves: agent(name=..., ...)")
    return agent.name


def _empty_tree(session: str) -> ThreadTree:
    root = root_node_id(session)
    return ThreadTree(Thread(id=root), root_id=root)
