"""What had been said in a session before one of its messages, read from the store; for what is done seldom."""

from __future__ import annotations

from perdure.activities.services import Services
from perdure.store.answers import Writer
from perdure.store.messages import read_messages
from perdure.store.runs import find_run
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import Message, message_from_json


async def said_before(services: Services, key: SessionKey, run: str, message: str) -> list[Message]:
    """The conversation of a run up to and with one of its messages, oldest first.

    Args:
        services: of this worker.
        key: the session.
        run: its run.
        message: row id of the message.
    """
    database = services.database
    row = await find_run(database, key.tenant, run)
    if row.node is None or row.start_position is None:
        return []  # it has not begun
    node, start = row.node, row.start_position
    own = await read_messages(database, key, node, first=start, discarded=True)
    upto = next((place for place, item in enumerate(own) if item.id == message), len(own) - 1)
    options = await services.options(Writer(key, run, ""))
    if options.history is not None:
        before: list[Message] = [message_from_json(item) for item in options.history]
    else:
        before = []
        for above, end in [*await services.ancestry(key, node, start), (node, start)]:
            before += [item.message for item in await read_messages(database, key, above, end=end)]
    return [*before, *(item.message for item in own[: upto + 1])]
