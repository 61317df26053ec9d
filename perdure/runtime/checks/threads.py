"""The check of threads: each body is there and the one that its row names; each tool call has its one result, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from perdure.errors import DamagedSession
from perdure.runtime.checks.check import Finding, Scope
from perdure.store.database import Database
from perdure.store.faults import BUSY, GONE, MENDED
from perdure.store.lost_bodies import RESULT_LOST, put_result_lost
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.opening import lock_head
from perdure.store.stored_threads import (
    NodeThread,
    Stub,
    page_stubs,
    read_known_results,
    read_nodes_of,
    restore_input,
)
from perdure.store.thread_repairs import write_cure
from perdure.uap.session_key import SessionKey
from perdure.uap.sound_thread import Cure, Place, cure
from perdure.upp.errors import UPPError
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult

_AT_ONCE = 5
_PAGE = 50
_RESULTS = "tool_result"
_BACKUP = "restore it from a backup, or go on from a checkpoint before it: `perdure sessions restore`"


class ThreadCheck:
    """Damaged threads, in both directions: calls without results, and results without calls."""

    name = "threads"
    well = "every body is whole, every tool call has its result"

    async def find(self, scope: Scope, sessions: Sequence[str]) -> list[Finding]:
        """See base class."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def look(thread: NodeThread) -> list[Finding]:
            async with gate:
                return await _look(scope.database, thread)

        threads = await read_nodes_of(scope.database, scope.tenant, sessions)
        found = await asyncio.gather(*(look(thread) for thread in threads), return_exceptions=True)
        return [finding for findings in found for finding in _unless_raised(findings)]


def _unless_raised(found: list[Finding] | BaseException) -> list[Finding]:
    """What was found; an error is raised once all have been looked at."""
    if isinstance(found, BaseException):
        raise found
    return found


@dataclass(frozen=True, slots=True)
class _Read:
    """A thread as it was read: what stands in it, and the messages whose bodies are lost."""

    places: list[Place]
    lost: list[Stub]


async def _look(database: Database, thread: NodeThread) -> list[Finding]:
    read = await _read(database, thread, whole=False)
    findings = [_lost(database, thread, stub) for stub in read.lost if stub.type != _RESULTS]
    if findings:
        return findings  # what stands around a message that is lost cannot be told to be right or wrong
    wrong = cure(read.places, {}, goes_on=thread.parent is not None)
    told = [f"the body of message {stub.id} is lost" for stub in read.lost] + list(wrong.faults)
    if not told:
        return []
    what = f"in thread node {thread.node} " + ", ".join(told[:10])
    return [Finding(what, "--repair writes what makes the thread sound", thread.key, partial(_mend, database, thread))]


def _lost(database: Database, thread: NodeThread, stub: Stub) -> Finding:
    what = f"the body of {stub.type} message {stub.id} is missing or is not the one that its hash {stub.sha256} names"
    if not stub.has_input:
        return Finding(what, _BACKUP, thread.key)
    mend = partial(_restore, database, thread.key, stub.id)
    return Finding(what, "--repair takes it from the session's inbox", thread.key, mend)


async def _restore(database: Database, key: SessionKey, message: str) -> str:
    try:
        return MENDED if await restore_input(database, key, message) else GONE
    except DamagedSession as error:
        return f"not repaired: {error}"


async def _mend(database: Database, thread: NodeThread) -> str:
    """Look again, with the session held, and write what makes the thread sound."""
    key = thread.key
    async with database.transaction(key) as connection:
        head = await lock_head(connection, key)
        if head is None or head.deleting:
            return GONE
        if head.active_run is not None:
            return BUSY
        read = await _read(database, thread, whole=True)
        if any(stub.type != _RESULTS for stub in read.lost):
            return "not repaired: the body of another message is lost"
        known = await read_known_results(database, key, thread.node)
        results = {**known.whole, **dict.fromkeys(known.lost, RESULT_LOST)}
        wrong = _named(cure(read.places, results, goes_on=thread.parent is not None), read)
        if not wrong.faults:
            return GONE
        for message, index in known.lost:
            await put_result_lost(connection, key, message, index)
        asked = {place.id: place.message for place in read.places}
        await write_cure(connection, key, thread.node, head.discards, wrong, asked)
    return MENDED


def _named(wrong: Cure, read: _Read) -> Cure:
    """The cure, with lost bodies among what is wrong."""
    lost = tuple(f"the body of message {stub.id} is lost" for stub in read.lost)
    return Cure(lost + wrong.faults, wrong.batches, wrong.dropped)


async def _read(database: Database, thread: NodeThread, *, whole: bool) -> _Read:
    read = _Read([], [])
    async for stubs in _pages(database, thread):
        stored = await _bodies(database, thread, stubs)
        for stub in stubs:
            found = stored.get(stub.position)
            if found is None:
                read.lost.append(stub)
                read.places.append(Place(stub.id, ToolResultMessage([]), lost=True))
            else:
                read.places.append(Place(stub.id, found.message if whole else _bare(stub.id, found.message)))
    return read


async def _pages(database: Database, thread: NodeThread) -> AsyncGenerator[list[Stub]]:
    first = 0
    while stubs := await page_stubs(database, thread, first=first, limit=_PAGE):
        yield stubs
        first = stubs[-1].position + 1


async def _bodies(database: Database, thread: NodeThread, stubs: Sequence[Stub]) -> Mapping[int, StoredMessage]:
    """The messages by position; one whose body is not what it should be is left out."""
    first, end = stubs[0].position, stubs[-1].position + 1
    try:
        found = await read_messages(database, thread.key, thread.node, first=first, end=end)
    except (DamagedSession, UPPError, ValueError, KeyError, TypeError):
        if len(stubs) == 1:
            return {}
        halves = (stubs[: len(stubs) // 2], stubs[len(stubs) // 2 :])
        return {at: item for half in halves for at, item in (await _bodies(database, thread, half)).items()}
    return {item.position: item for item in found}


def _bare(ident: str, message: Message) -> Message:
    """What of a message it takes to see whether calls and results match."""
    if isinstance(message, AssistantMessage):
        calls = [ToolCall(call.tool_call_id, "", {}) for call in message.tool_calls or ()]
        return AssistantMessage("", calls or None, id=message.id, timestamp=message.timestamp)
    if isinstance(message, ToolResultMessage):
        results = [ToolResult(one.tool_call_id, [ident, place]) for place, one in enumerate(message.results)]
        return ToolResultMessage(results, id=message.id, timestamp=message.timestamp)
    return UserMessage("", id=message.id, timestamp=message.timestamp)
