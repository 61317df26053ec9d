"""The rows of a run as the events of a response need them: whole, the one that completes the run with the answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import cast

from perdure.errors import DamagedSession
from perdure.protocols.uamp_events.log_row import is_cut
from perdure.protocols.uamp_events.response_flow import ResponseFlow
from perdure.protocols.uamp_events.surrounding_events import ResponseEvent
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.unfolding import Unfolding
from perdure.store.completed_turns import completed_turn
from perdure.store.database import Database
from perdure.store.events import Event
from perdure.store.messages import read_message
from perdure.store.payloads import read_payloads
from perdure.store.run_messages import read_run_messages
from perdure.store.runs import RunRow, find_run
from perdure.uap.scaffold import scaffold_of
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, loads
from perdure.upp.messages import AssistantMessage

_COMPLETED = "run.completed"
_ACTION = "action"


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """What a completed run has answered.

    Attributes:
        message: its last; its id is that of the row whose deltas were told.
        stop: why the model stopped, in UPP's words.
    """

    message: AssistantMessage
    stop: str


@dataclass(frozen=True, slots=True)
class WholeRow:
    """A row that `ResponseFlow` can take; `answer` comes with the row that completes the run."""

    row: Event
    answer: RunAnswer | None = None


@dataclass(frozen=True, slots=True)
class ToldRow:
    """A row, and the events of the response that it is."""

    row: Event
    events: list[ResponseEvent]
    answer: RunAnswer | None = None


class ResponseRows:
    """Reads the rows of one run, one after the other, from its first."""

    def __init__(self, database: Database, key: SessionKey, run: str) -> None:
        """Read rows of `run`; those of other runs are passed over."""
        self._database = database
        self._key = key
        self._run = run
        self._held: Event | None = None
        self._unfolding = Unfolding()

    async def read(self, row: Event) -> list[WholeRow]:
        """The next row, whole: none, one, or also one that was held back until the row behind it was there.

        Raises:
            DamagedSession: what the row refers to is not there.
        """
        if row.run != self._run:
            return []
        before: list[WholeRow] = []
        if self._held is not None:  # the row behind an action names the message that has its calls
            before, self._held = [WholeRow(await self._with_calls(self._held, str(row.data.get("message"))))], None
        if row.type == _COMPLETED:
            answer = await read_answer(self._database, await find_run(self._database, self._key.tenant, self._run))
            return [*before, WholeRow(row, answer)]
        if row.source == "upp":
            row = self._unfolding.new_in(row)
        if not is_cut(row):
            return [*before, WholeRow(row)]
        if row.type == _ACTION and "message" not in row.data:
            self._held = row
            return before
        if row.type == _ACTION:
            return [*before, WholeRow(await self._with_calls(row, str(row.data["message"])))]
        return [*before, WholeRow(await self._with_result(row))]

    async def _with_calls(self, row: Event, message: str) -> Event:
        stored = await read_message(self._database, self._key, message)
        if stored is None or not isinstance(stored.message, AssistantMessage):
            raise DamagedSession(f"session {self._key.session} lacks message {message}", run_id=self._run)
        calls: list[JSONValue] = [call.to_json() for call in stored.message.tool_calls or ()]
        return replace(row, data={**row.data, "toolCalls": calls})

    async def _with_result(self, row: Event) -> Event:
        sha256 = str(cast(JSONObject, row.data["cut"])["sha256"])
        found = await read_payloads(self._database, self._key, [sha256])
        kept = {name: value for name, value in row.data.items() if name != "cut"}
        delta = {**cast(JSONObject, row.data["delta"]), "result": loads(found[sha256])}
        return replace(row, data={**kept, "delta": delta})


async def read_answer(database: Database, run: RunRow) -> RunAnswer:
    """The answer of a completed run.

    Raises:
        RunError: the run has not begun.
        DamagedSession: a body is missing or does not have its hash.
    """
    turn = await completed_turn(database, run)
    assert run.node is not None
    assert run.start_position is not None
    own = await read_run_messages(database, run.key, run.id, run.node, first=run.start_position)
    last = next((item for item in reversed(own) if _is_answer(item.message)), None)
    if last is None:
        return RunAnswer(turn.response, "end_turn")
    return RunAnswer(replace(turn.response, id=last.id), last.stop or "end_turn")


def _is_answer(message: object) -> bool:
    return isinstance(message, AssistantMessage) and not scaffold_of(message)


async def response_events(handle: RunHandle, rows: ResponseRows, flow: ResponseFlow) -> AsyncGenerator[ToldRow, None]:
    """The events of a run's response, from its beginning to its end, live; a row after the other.

    Args:
        handle: of the run.
        rows: of the same run.
        flow: likewise.
    """
    async with contextlib.aclosing(handle.events()) as events:
        async for event in events:
            for whole in await rows.read(event):
                told = flow.take(whole.row, answer=None if whole.answer is None else whole.answer.message)
                yield ToldRow(whole.row, told, whole.answer)
