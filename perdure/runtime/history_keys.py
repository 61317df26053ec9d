"""Which keys the histories of sessions need: what Temporal holds is never written again, so it keeps the key it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities.contracts import SANDBOXED_SESSION, SESSION, STAGE
from perdure.errors import ServerUnavailable
from perdure.runtime.codec import KEY_ID, is_sealed

_OURS = f"WorkflowType IN ('{SESSION}', '{SANDBOXED_SESSION}', '{STAGE}')"


async def count_histories(client: Client, *, closed: bool) -> Counter[str]:
    """How many histories of sessions hold payloads under each key, by its id.

    Args:
        client: of Temporal.
        closed: also those of executions that have ended and are retained; else only the open ones.

    Raises:
        ServerUnavailable: Temporal does not answer.
    """
    found: Counter[str] = Counter()
    try:
        async for execution in client.list_workflows(_OURS if closed else f"ExecutionStatus = 'Running' AND {_OURS}"):
            found.update(await _keys(client, execution.id, execution.run_id))
    except RPCError as error:
        raise ServerUnavailable(f"Temporal does not tell its histories: {str(error).splitlines()[0]}") from error
    return found


async def _keys(client: Client, workflow: str, run: str) -> set[str]:
    names: set[str] = set()
    try:
        async for event in client.get_workflow_handle(workflow, run_id=run).fetch_history_events():
            names.update(payload.metadata[KEY_ID].decode() for payload in _payloads(event) if is_sealed(payload))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # it was deleted since it was listed
            raise
    return names


def _payloads(message: Message) -> Iterator[Payload]:
    """All payloads in a message, at any depth."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            items: list[Any] = [item for item in cast("dict[Any, Any]", value).values() if isinstance(item, Message)]
        else:
            items = list(value) if _is_repeated(field) else [value]
        for item in items:
            yield from _payloads(item)


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)
