"""Threads of ThreadProtocol as a session: read strictly or as far as they can be, and stored whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perdure.errors import InvalidInput
from perdure.protocols.threadprotocol.models import SystemAction, Thread
from perdure.protocols.threadprotocol.problem import InvalidThread, Problem
from perdure.protocols.threadprotocol.to_tree import tree_from_threads
from perdure.protocols.threadprotocol.validation import read_leniently, read_thread
from perdure.protocols.threadprotocol.viewing import View
from perdure.uap.ids import new_id
from perdure.uap.session_json import VERSION
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.timestamp import format_timestamp, parse_timestamp

MOST_THREADS = 1_000


@dataclass(frozen=True, slots=True)
class ThreadReading:
    """How threads are read.

    Attributes:
        agent: the identifier of the agent of the threads that the session goes on as; "" for the one that is called as the
            session's agent, or the only one.
        lenient: keep what can be kept of a thread that breaks rules, instead of refusing it.
        view: what the session's agent is shown of the others.
    """

    agent: str = ""
    lenient: bool = False
    view: View = field(default_factory=View)


AS_THEY_ARE = ThreadReading()


@dataclass(frozen=True, slots=True)
class ReadThreads:
    """Threads as a session.

    Attributes:
        document: a SessionJSON.
        title: of the root thread.
        problems: by thread id, what was wrong with the threads and mended.
        left_out: how many system actions there were, which are no messages.
    """

    document: JSONObject
    title: str
    problems: dict[str, list[Problem]]
    left_out: int


def read_threads(
    value: JSONValue, agent_name: str, reading: ThreadReading, *, session: str | None = None
) -> ReadThreads:
    """The session of a thread, or of several that are a tree.

    Args:
        value: one thread's JSON, or a list of them.
        agent_name: of the session's agent.
        reading: how they are read.
        session: the session's id; a new one if None.

    Raises:
        InvalidThread: one breaks the rules (or cannot be read at all, if leniently); its path begins with the thread's place.
        InvalidInput: they are no tree, or it is not clear as whom the session goes on.
    """
    items = value if isinstance(value, list) else [value]
    if not 0 < len(items) <= MOST_THREADS:
        raise InvalidInput(f"a session is made of 1 to {MOST_THREADS:,} threads, not of {len(items):,}")
    threads: list[Thread] = []
    problems: dict[str, list[Problem]] = {}
    for place, item in enumerate(items):
        thread, found = _read(item, reading, f"threads[{place}]." if len(items) > 1 else "")
        threads.append(thread)
        if found:
            problems[thread.thread_id] = found
    tree = tree_from_threads(threads, _agents(threads, agent_name, reading.agent), reading.view)
    root = next(thread for thread in threads if thread.parent_thread_id not in {one.thread_id for one in threads})
    mine = _agents([root], agent_name, reading.agent)[root.thread_id]
    times = [parse_timestamp(thread.updated_at) for thread in threads]
    document: JSONObject = {
        "version": VERSION,
        "id": session or new_id(),
        "agentId": mine,
        "createdAt": format_timestamp(parse_timestamp(root.created_at)),
        "updatedAt": format_timestamp(max(times)),
        "threadTree": tree.to_json(),
        "checkpoints": [],
        "metadata": {},
    }
    left = sum(isinstance(action, SystemAction) for thread in threads for action in thread.actions)
    return ReadThreads(document, root.title, problems, left)


def _read(item: JSONValue, reading: ThreadReading, place: str) -> tuple[Thread, list[Problem]]:
    try:
        if not reading.lenient:
            return read_thread(item), []
        mended = read_leniently(item)
        return mended.thread, list(mended.problems)
    except InvalidThread as error:
        moved = [replace(problem, path=f"{place}{problem.path}") for problem in error.problems]
        raise InvalidThread(moved) from error


def _agents(threads: Sequence[Thread], agent_name: str, wanted: str) -> Mapping[str, str]:
    return {thread.thread_id: _agent(thread, agent_name, wanted) for thread in threads}


def _agent(thread: Thread, agent_name: str, wanted: str) -> str:
    """The id of the agent as which the session goes on."""
    identifiers = {agent.agent_identifier: agent.agent_id for agent in thread.agents.values()}
    found = identifiers.get(wanted or agent_name)
    if found is None and not wanted and len(identifiers) == 1:
        (found,) = identifiers.values()
    if found is not None:
        return found
    known = ", ".join(sorted(identifiers)) or "none"
    raise InvalidInput(
        f"thread {thread.thread_id}: say as which of its agents the session goes on; it has {known}, and none is "
        f"called {wanted or agent_name!r}"
    )
