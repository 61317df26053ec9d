"""Sub-agents' sessions: opened from their parents' tool calls, and what their runs came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from sqlalchemy import select

from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.runs import RunRow, find_run
from perdure.store.tables import runs, sessions
from perdure.uap.ids import derive_id, root_node_id, run_id
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.messages import UserMessage


@dataclass(frozen=True, slots=True)
class Opening:
    """A sub-agent's session as its parent's tool call makes it.

    Attributes:
        key: the session.
        agent: its agent's path.
        agent_id: its agent's id.
        parent: the parent's session.
        run: the parent's run.
        message: row id of the parent's message that holds the tool call.
        index: the call's place in it.
        call: the tool call's id.
        task: the input.
        options: of the child's run.
    """

    key: SessionKey
    agent: str
    agent_id: str
    parent: str
    run: str
    message: str
    index: int
    call: str
    task: UserMessage
    options: RunOptions


@dataclass(frozen=True, slots=True)
class ChildRun:
    """The run that a parent's tool call asked for. `usage_by_agent` is of it and its own sub-agents, once it has ended."""

    row: RunRow
    agent: str
    usage_by_agent: dict[str, JSONObject]


async def open_session(database: Database, opening: Opening) -> bool:
    """Open a sub-agent's session with its one input, in one transaction; False if its parent's run is not active any more.

    A session that is open already stays as it is.
    """
    run = child_run_id(opening.key.session)
    message = dumps(opening.task.to_json())
    options = opening.options.to_json()
    known = {name: value for name, value in opening.task.to_json().items() if name not in ("id", "timestamp")}
    seal, parent = database.seal(opening.key), database.seal(SessionKey(opening.key.tenant, opening.parent))
    answer = await database.call(
        "open_child_v1", opening.key.tenant, opening.key.session, opening.agent, opening.agent_id, opening.parent,
        opening.run, opening.message, opening.index, root_node_id(opening.key.session),
        f"{opening.message}:{opening.index}", run, derive_id(run, "message", 0, 0), seal.body(message), sha256_hex(message),
        sha256_hex(dumps({"message": known, "options": options})), seal.body(dumps(options)) if options else None,
        escaped_json(parent.data(started_data(opening.key.session, opening.agent, opening.call))),
    )  # fmt: skip
    return answer["kind"] != "gone"


def started_data(session: str, agent: str, call: str) -> JSONObject:
    """Data of `child.started`; `child.ended` says the same and the status.

    Args:
        session: the sub-agent's.
        agent: its path.
        call: the id of the parent's tool call.
    """
    names = agent.split("/")
    return {
        "session": session,
        "run": child_run_id(session),
        "call": call,
        "tool": names[-1],
        "agent": agent,
        "path": [*names[1:]],
    }


def child_run_id(session: str) -> str:
    """The run of a sub-agent's session that its parent asked for: that of its first input."""
    return run_id(session, 1)


async def find_child_run(database: Database, key: SessionKey) -> ChildRun | None:
    """The run that a parent asked for; None if it has not begun."""
    query = (
        select(sessions.c.agent, runs.c.usage_by_agent)
        .join_from(sessions, runs, (runs.c.tenant_id == sessions.c.tenant_id) & (runs.c.session_id == sessions.c.id))
        .where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session, runs.c.id == child_run_id(key.session))
    )
    async with database.reading(key) as connection:
        found = (await connection.execute(query)).first()
    if found is None:
        return None
    row = await find_run(database, key.tenant, child_run_id(key.session))
    return ChildRun(row, found.agent, cast("dict[str, JSONObject]", found.usage_by_agent or {}))


async def session_exists(database: Database, key: SessionKey) -> bool:
    """Whether a session has been opened."""
    query = select(sessions.c.id).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    async with database.reading() as connection:
        return await connection.scalar(query) is not None
