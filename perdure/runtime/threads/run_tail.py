"""The thread of a run as it grows: each stored message with its actions, numbered as the whole thread numbers them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.protocols.threadprotocol.from_tree import Noted, Reading, Said, Telling
from perdure.protocols.threadprotocol.models import AnyAction
from perdure.protocols.threadprotocol.recording import Recording
from perdure.runtime.threads.outgoing import Update, agent_of, grant_of, said_of, update_of, updates_in
from perdure.store.database import Database
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.runs import find_run
from perdure.store.sessions import read_nodes, read_session
from perdure.store.thread_facts import Grant, read_frozen, read_grants
from perdure.uap.scaffold import scaffold_of
from perdure.uap.session_key import SessionKey
from perdure.uap.spec import runs_alone
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, ToolResultMessage
from perdure.upp.timestamp import format_timestamp


@dataclass(frozen=True, slots=True)
class Settled:
    """A message that is stored, and part of the thread.

    Attributes:
        stored: the message.
        actions: its own, and the system actions that stand before it.
    """

    stored: StoredMessage
    actions: list[AnyAction]


class RunTail:
    """The end of a thread that one run makes.

    What the session's thread (`outgoing`) says of these messages is said here, action by action, without reading what
    stands above them again.
    """

    def __init__(self, database: Database, key: SessionKey, run: str) -> None:
        """Read the messages of a run of a session; nothing is read before `new`."""
        self._database, self._key, self._run = database, key, run
        self._node = ""
        self._next = 0
        self._reading: Reading | None = None
        self._said: dict[str, Said] = {}
        self._noted: list[Noted] = []
        self._updates: dict[str, Update] = {}
        self._agent_id = ""
        self._grants: list[Grant] = []
        self._above_ids: set[str] = set()
        self._given: set[str] = set()
        self._spec: JSONObject = {}

    async def new(self, upto: str | None) -> list[Settled]:
        """The messages behind those that were given, up to one of them; the run must have begun.

        Args:
            upto: id of the row of the last one; None if the run has ended: then all, also what was kept from everybody
                until it was checked.

        Raises:
            DamagedSession: a body is missing or does not have its hash.
            InvalidThread: something in it cannot be said in a thread.
        """
        if upto in self._given or (self._reading is None and not await self._begin()):
            return []
        stored = await read_messages(self._database, self._key, self._node, first=self._next, discarded=True)
        if any(isinstance(item.message, ToolResultMessage) for item in stored):
            await self._read_grants()
        found: list[Settled] = []
        hidden = False
        for item in stored:
            hidden = hidden or (item.unchecked and upto is not None)
            if not hidden:
                self._next = item.position + 1
            if not hidden and item.run == self._run and await self._tells(item, is_last=upto is None):
                found.append(Settled(item, self._read(item)))
                self._given.add(item.id)
            if hidden or item.id == upto:
                break
        return found

    @property
    def used_before(self) -> frozenset[str]:
        """The ids of the tool calls of the conversation before the run."""
        return frozenset(self._above_ids)

    def is_sequential(self, tool: str) -> bool:
        """Whether a tool's calls run alone."""
        return runs_alone(self._spec, tool)

    async def _tells(self, item: StoredMessage, *, is_last: bool) -> bool:
        """Whether a message is given: what a failed run had stored was part of the thread until it failed."""
        if is_shown(item) or is_last:
            return is_shown(item)
        return is_shown(replace(item, discarded=False)) and await self._has_failed()

    async def _has_failed(self) -> bool:
        return (await find_run(self._database, self._key.tenant, self._run)).status == "failed"

    async def _begin(self) -> bool:
        run = await find_run(self._database, self._key.tenant, self._run)
        if run.node is None or run.start_position is None:
            return False
        row = await read_session(self._database, self._key)
        async with self._database.transaction(self._key) as connection:
            frozen = await read_frozen(connection, self._key)
        self._updates = {update.run.id: update for update in updates_in(frozen)}
        self._spec = next(found.spec for found in frozen if found.id == self._run)
        await self._read_grants()
        self._node, self._next, self._agent_id = run.node, run.start_position, row.agent_id
        above = await read_messages(self._database, self._key, run.node, end=run.start_position + 1, discarded=True)
        first = format_timestamp(above[0].message.timestamp if above else row.created_at)
        telling = Telling([agent_of(row)], self._said, self._noted)
        self._reading = Reading(telling, Recording(not_before=first))
        for item in above:
            if item.position < run.start_position and is_shown(item):
                self._read(item)
        self._above_ids |= self._reading.recording.used_ids
        await self._read_ids_above(run.node)
        return True

    async def _read_ids_above(self, node: str) -> None:
        """The ids of calls in the threads that the node goes on from, which the client has in its list."""
        nodes = {row.id: row for row in await read_nodes(self._database, self._key)}
        row = nodes[node]
        while row.parent is not None:
            above = await read_messages(self._database, self._key, row.parent, end=row.fork_index)
            answers = [item.message for item in above if isinstance(item.message, AssistantMessage)]
            self._above_ids |= {call.tool_call_id for answer in answers for call in answer.tool_calls or ()}
            row = nodes[row.parent]

    def _read(self, item: StoredMessage) -> list[AnyAction]:
        assert self._reading is not None, "the run has begun"
        message = item.message
        said = said_of(item)
        if said is not None:
            self._said[item.id] = said
        self._noted.clear()
        update = None if item.run is None else self._updates.pop(item.run, None)
        if update is not None:
            self._noted.append(update_of(update, item.id, self._agent_id))
        if isinstance(message, ToolResultMessage):
            own = [grant for grant in self._grants if grant.results == item.id]
            self._noted += [grant_of(grant, self._agent_id) for grant in own]
        before = len(self._reading.recording.actions)
        self._reading.take(message, item.id)
        return self._reading.recording.actions[before:]

    async def _read_grants(self) -> None:
        async with self._database.transaction(self._key) as connection:
            self._grants = await read_grants(connection, self._key)


def is_shown(item: StoredMessage) -> bool:
    """Whether a message is part of the thread."""
    return not item.discarded and not item.unchecked and not scaffold_of(item.message)
