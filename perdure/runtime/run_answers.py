"""What a run that is over has said in its chat, for those who only hear whole messages."""

from __future__ import annotations

from perdure.runtime.response_rows import read_answer
from perdure.store.database import Database
from perdure.store.messages import StoredMessage
from perdure.store.run_messages import read_run_messages
from perdure.store.runs import RunRow
from perdure.uap.scaffold import scaffold_of
from perdure.upp.messages import AssistantMessage, Message, UserMessage


async def messages_said(database: Database, run: RunRow) -> list[tuple[str, Message]]:
    """The messages of a completed or cancelled run behind the one that it began with: what was said, in order.

    Calls of tools and their results are left out; what joined the run is in it. A completed run's last message is its
    answer, even one without words.

    Args:
        database: the store.
        run: the run.

    Returns:
        Each with the id of its row.

    Raises:
        DamagedSession: a body is missing or does not have its hash.
    """
    if run.node is None or run.start_position is None:
        return []
    own = await read_run_messages(database, run.key, run.id, run.node, first=run.start_position + 1)
    said: list[tuple[str, Message]] = [(item.id, item.message) for item in own if _is_said(item)]
    if run.status != "completed":
        return said
    answer = (await read_answer(database, run)).message
    return [*(one for one in said if one[0] != answer.id), (str(answer.id), answer)]


def _is_said(item: StoredMessage) -> bool:
    message = item.message
    if item.discarded or item.unchecked or scaffold_of(message):
        return False
    return isinstance(message, AssistantMessage | UserMessage) and any(
        block.type != "reasoning" and getattr(block, "text", None) != "" for block in message.blocks()
    )
