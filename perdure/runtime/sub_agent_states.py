"""The sessions of sub-agents inside their parent's document. Source: UAP-1.0 section 6.4, subAgentStates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from perdure.errors import UnknownSession
from perdure.store.database import Database
from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

Document: TypeAlias = Callable[[Database, SessionKey], Awaitable[JSONObject]]


async def sub_agent_documents(
    database: Database, key: SessionKey, records: Sequence[CheckpointRecord], document: Document
) -> dict[str, JSONObject]:
    """The SessionJSON of each sub-agent that the checkpoints of a session name, by session; each is read once.

    One that is gone is left out.

    Args:
        database: the store.
        key: the parent's session.
        records: its checkpoints.
        document: reads one session's.
    """
    found: dict[str, JSONObject] = {}
    for child in dict.fromkeys(child for record in records for child in record.sub_agents.values()):
        try:
            found[child] = await document(database, SessionKey(key.tenant, child))
        except UnknownSession:
            continue
    return found


def sub_agent_states(record: CheckpointRecord, documents: Mapping[str, JSONObject]) -> dict[str, JSONObject]:
    """A checkpoint's `subAgentStates`: SessionJSON by tool call id."""
    return {call: documents[child] for call, child in record.sub_agents.items() if child in documents}
