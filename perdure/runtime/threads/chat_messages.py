"""A session as the UI messages that a page of the AI SDK begins with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from perdure.protocols.threadprotocol.content import parts_of
from perdure.protocols.threadprotocol.from_tree import Reading, Telling
from perdure.protocols.threadprotocol.live_stream import LiveStream
from perdure.protocols.threadprotocol.models import AnyAction, UserMessageAction
from perdure.protocols.threadprotocol.recording import Recording
from perdure.protocols.threadprotocol.ui_message import ui_id_of, ui_part
from perdure.protocols.threadprotocol.ui_parts import ui_parts
from perdure.runtime.threads.outgoing import agent_of
from perdure.runtime.threads.run_tail import is_shown
from perdure.store.database import Database
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.sessions import SessionRow, read_nodes, read_session
from perdure.uap.ids import root_node_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import UserMessage
from perdure.upp.timestamp import format_timestamp


async def chat_messages(database: Database, key: SessionKey) -> list[JSONObject]:
    """The UI messages from the root to the current node, oldest first.

    What an agent says in one run is one message, whose id is the run's. Of a run that is active only the input is there:
    its answer is told by its stream, from the beginning.

    Raises:
        UnknownSession: there is none.
        DamagedSession: a body is missing or does not have its hash.
    """
    row = await read_session(database, key)
    stored = await _path(database, row)
    telling = _Telling(row, Reading(Telling([agent_of(row)], joins=False), Recording(not_before=_first(row, stored))))
    messages: list[JSONObject] = []
    for run, group in groupby(stored, key=lambda item: item.run):
        messages += telling.of_run(run, list(group))
    return messages


class _Telling:
    def __init__(self, row: SessionRow, reading: Reading) -> None:
        self._row, self._reading = row, reading
        self._used: set[str] = set()

    def of_run(self, run: str | None, stored: Sequence[StoredMessage]) -> list[JSONObject]:
        """The messages of a run; those that came with the session are of none."""
        messages: list[JSONObject] = []
        chunks: list[JSONObject] = []
        ident = run or ""
        live = LiveStream(ident)
        live.know_ids(self._used)
        for place, item in enumerate(stored):
            actions = self._actions_of(item)
            if isinstance(item.message, UserMessage) and (run is None or place == 0):
                messages += _answer(ident, chunks)
                chunks, ident = [], run or ""
                messages.append(_asked(item.message, actions))
                live.settle(item.id, item.message, actions)
            elif run is None or run != self._row.active_run:
                ident = ident or item.message.id
                chunks += live.settle(item.id, item.message, actions)
        self._used |= live.calls.used
        return [*messages, *_answer(ident, chunks)]

    def _actions_of(self, item: StoredMessage) -> list[AnyAction]:
        before = len(self._reading.recording.actions)
        self._reading.take(item.message, item.id)
        return self._reading.recording.actions[before:]


def _asked(message: UserMessage, actions: Sequence[AnyAction]) -> JSONObject:
    said = next(action for action in actions if isinstance(action, UserMessageAction))
    parts = [ui_part(part) for part in parts_of(said.content)]
    return {"id": ui_id_of(message), "role": "user", "parts": [*parts]}


def _answer(ident: str, chunks: Sequence[JSONObject]) -> list[JSONObject]:
    parts = ui_parts(chunks)
    return [{"id": ident, "role": "assistant", "parts": [*parts]}] if parts else []


def _first(row: SessionRow, stored: Sequence[StoredMessage]) -> str:
    return format_timestamp(stored[0].message.timestamp if stored else row.created_at)


async def _path(database: Database, row: SessionRow) -> list[StoredMessage]:
    """The messages of the current node, behind those of the nodes above it that it goes on from."""
    nodes = {node.id: node for node in await read_nodes(database, row.key)}
    node, end, parts = nodes[row.current_node or root_node_id(row.key.session)], None, list[list[StoredMessage]]()
    while True:
        stored = await read_messages(database, row.key, node.id, end=end, discarded=True)
        parts.append([item for item in stored if is_shown(item)])
        if node.parent is None:
            return [item for part in reversed(parts) for item in part]
        node, end = nodes[node.parent], node.fork_index
