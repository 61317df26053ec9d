"""A SessionJSON as the rows of a session. Source: UAP-1.0 section 13.

What rows cannot say exactly stays beside them as it came, so that an export is what was imported:
`sessions.imported` has createdAt, updatedAt, the checkpoint that it stands at, and the salt of its runs' ids;
`thread_nodes.imported` a node's place, its thread's id and dates, its children, and how many messages it came with;
a checkpoint is kept whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.importing import ImportedCheckpoint, ImportedNode, ImportedSession, store_session
from perdure.uap.ids import new_id
from perdure.uap.session_checkpoints import RUN_ID, Checkpoint
from perdure.uap.session_document import SessionDocument, read_session
from perdure.uap.session_key import SessionKey, known_session_id
from perdure.uap.session_options import json_metadata
from perdure.uap.session_place import thread_length
from perdure.uap.thread_node import ThreadNode, short, wrong
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.timestamp import parse_timestamp


async def import_document(
    database: Database, tenant: str, agent: str, value: JSONValue, metadata: Mapping[str, JSONValue]
) -> str:
    """Store the session of a SessionJSON, or of its text, and return its id.

    Args:
        database: the store.
        tenant: whose it will be.
        agent: the name of the agent that goes on with it.
        value: the document.
        metadata: added to the session's own.

    Raises:
        InvalidInput: it is no session, or cannot be stored, or one of that id is there; the message begins with the
            JSON path of what is wrong. Nothing was written.
    """
    document = read_session(value)
    _check_storable(document)
    await store_session(database, SessionKey(tenant, document.id), _rows(document, agent, metadata))
    return document.id


def _check_storable(document: SessionDocument) -> None:
    """Refuse ids that no row can have; a document may hold any text."""
    try:
        known = known_session_id(document.id)
    except InvalidInput as error:
        raise wrong("id", str(error)) from error
    if known != document.id:
        raise wrong("id", f"{short(document.id)} is a UUID in another form than its own; write it in lower case")
    _check_id(document.agent_id, "agentId")
    for index, node in enumerate(document.tree.nodes.values()):
        _check_id(node.id, f"threadTree.nodes[{index}].id")
        _check_id(node.thread.id, f"threadTree.nodes[{index}].thread.id")
    for index, checkpoint in enumerate(document.checkpoints.items):
        _check_id(checkpoint.id, f"checkpoints[{index}].id")


def _check_id(text: str, path: str) -> None:
    if not text.isprintable():
        raise wrong(path, f"{short(text)} has characters that no id can have")


def _rows(document: SessionDocument, agent: str, metadata: Mapping[str, JSONValue]) -> ImportedSession:
    tree, current = document.tree, document.checkpoints.current
    return ImportedSession(
        agent=agent,
        agent_id=document.agent_id,
        metadata=json_metadata({**document.metadata, **metadata}),
        current=tree.current.id,
        created_at=parse_timestamp(document.created_at),
        updated_at=parse_timestamp(document.updated_at),
        imported={
            "createdAt": document.created_at,
            "updatedAt": document.updated_at,
            "checkpoint": None if current is None else current.id,
            "salt": new_id(),
        },
        nodes=[_node(node, index, tree) for index, node in enumerate(tree.nodes.values())],
        checkpoints=[_checkpoint(item, index, tree) for index, item in enumerate(document.checkpoints.items)],
    )


def _node(node: ThreadNode, index: int, tree: ThreadTree) -> ImportedNode:
    thread = node.thread.to_json()
    count = len(node.thread)
    fork = None
    if node.parent_id is not None and node.fork_index is not None:
        fork = min(node.fork_index, len(tree.nodes[node.parent_id].thread))
    imported: JSONObject = {
        "index": index,
        "children": [*node.children],
        "count": count,
        "thread": {name: value for name, value in thread.items() if name != "messages"},
    }
    return ImportedNode(
        {
            "id": node.id,
            "parent_id": node.parent_id,
            "name": node.name,
            "fork_index": fork,
            "thread_id": node.thread.id,
            "metadata": node.metadata,
            "created_at": node.thread.created_at,
            "imported": imported,
        },
        node.thread.messages,
    )


def _checkpoint(checkpoint: Checkpoint, index: int, tree: ThreadTree) -> ImportedCheckpoint:
    run = checkpoint.metadata.get(RUN_ID)
    start = thread_length(tree, checkpoint)
    usage = {name: value for name, value in checkpoint.state.usage.to_json().items() if name != "cycles" and value}
    record: JSONObject = {
        "id": checkpoint.id,
        "run": run if isinstance(run, str) and run.isprintable() else "",
        "step": checkpoint.step,
        "node": checkpoint.thread_id,
        "position": start + len(checkpoint.spoken),
        "start": start,
        "at": checkpoint.timestamp,
        "usage": {**usage},
        "cycles": checkpoint.state.cycles,
        "done": checkpoint.state.done,
        "imported": index,
    }
    return ImportedCheckpoint(
        {
            "id": checkpoint.id,
            "run_id": record["run"],
            "node_id": checkpoint.thread_id,
            "step": checkpoint.step,
            "position": record["position"],
            "at": checkpoint.timestamp,
            "record": record,
        },
        dumps(checkpoint.to_json()),
    )
