"""One session for tests of the store's hot writes, and its writes as the activities make them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import update

from perdure.store import runs
from perdure.store.accepted import Accepted
from perdure.store.answers import AnswerRow, Writer, append_deltas, save_answer
from perdure.store.beginning import Begun, begin_run
from perdure.store.database import Database
from perdure.store.events import Event, read_events
from perdure.store.inputs import submit
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.runs import Ending, list_runs
from perdure.store.submission import Submission
from perdure.store.tables import metadata, session_heads
from perdure.store.tool_calls import CallState, ResultRow, Saved, claim_call, save_result
from perdure.uap.events import run_event, uap_event
from perdure.uap.ids import answer_id, checkpoint_id, new_id, results_id, root_node_id, wait_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall
from tests.integration.facts import Facts, check_events, check_thread

NOW = datetime(2030, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
AT = "2030-01-02T03:04:05.678Z"
USAGE: JSONObject = {"inputTokens": 3, "outputTokens": 4}
OWN = {table.name: table for table in metadata.sorted_tables if table.name == "sessions" or "session_id" in table.c}
ALL_ROWS = " union all ".join(
    f"select '{name}', to_json(t)::text from perdure.{name} t "
    f"where tenant_id = $1 and {'id' if name == 'sessions' else 'session_id'} = $2"
    for name in OWN
)
CONNECTIONS = 5
"""Of the database that the fixture `database` gives."""


@dataclass
class Story:
    """One session, and its writes as the activities make them: every id derived, every argument the same again."""

    database: Database
    key: SessionKey
    agent: str = "teller"
    execution: str = "execution-1"
    notes: int = 0
    positions: dict[str, int] = field(default_factory=dict[str, int])

    async def submit(self, words: str, **values: Any) -> Accepted:
        """Hand in an input; the first opens the session."""
        submission = Submission(
            tenant=self.key.tenant,
            agent=self.agent,
            agent_id="agent-1",
            message=UserMessage(words),
            key=new_id(),
            session=self.key.session,
            create=True,
        )
        return await submit(self.database, dataclasses.replace(submission, **values))

    async def begin(self, **values: Any) -> Begun:
        """Take the next input."""
        given: dict[str, Any] = {"agent": self.agent, "execution": self.execution, "spec": {"name": "s"}, "now": NOW}
        begun = await begin_run(self.database, self.key, **{**given, **values})
        if begun.row is not None:
            self.positions[str(begun.row["run"])] = int(cast(int, begun.row["start"]))
        return begun

    async def run(self, words: str = "tell me") -> str:
        """Hand in an input and begin its run."""
        accepted = await self.submit(words)
        begun = await self.begin()
        assert (begun.kind, (begun.row or {})["run"]) == ("new", accepted.run)
        return accepted.run

    def writer(self, run: str) -> Writer:
        """Who writes for a run."""
        return Writer(self.key, run, self.execution)

    def answer(self, run: str, step: int = 1, calls: int | Sequence[str] = 0, text: str = "said") -> AnswerRow:
        """The answer of a step; all steps before it had calls, so two messages each."""
        ids = [f"call-{n}" for n in range(calls)] if isinstance(calls, int) else list(calls)
        message = AssistantMessage(
            text, [ToolCall(name, "tool", {}) for name in ids] or None, id=f"vendor-{step}", timestamp=NOW
        )
        body = dumps(message.to_json())
        empty = sha256_hex(b"{}")
        return AnswerRow(
            id=answer_id(run, step),
            node=root_node_id(self.key.session),
            position=self.positions[run] + 1 + 2 * (step - 1),
            step=step,
            sha256=sha256_hex(body),
            body=body,
            usage=USAGE,
            stop="tool_use" if ids else "end_turn",
            results_id=results_id(run, step),
            calls=[{"call_id": name, "tool": "tool", "args_sha256": empty, "effect": "once"} for name in ids],
        )

    async def save(self, run: str, step: int = 1, calls: int | Sequence[str] = 0, **values: Any) -> str:
        """Store the answer of a step, with its action; `pending` rides along."""
        pending = cast("list[JSONObject]", values.pop("pending", []))
        row = self.answer(run, step, calls, **values)
        events: list[JSONValue] = [uap_event("action", step, {"message": row.id})] if row.calls else []
        return (await save_answer(self.database, self.writer(run), row, events, pending)).kind

    async def deltas(self, run: str, words: str, step: int = 1, **values: Any) -> str:
        """Append one delta a word."""
        message = answer_id(run, step)
        events: list[JSONObject] = [
            {"s": "upp", "t": "text_delta", "p": step, "a": 1, "d": {"message": message, "delta": {"text": word}}}
            for word in words.split()
        ]
        if values.get("reset"):
            events.insert(0, {**run_event("message.reset", {"message": message}), "p": step})
        given: dict[str, Any] = {"token": "try-1", "reset": False, "first": 0, "pending": [], "events": events}
        return await append_deltas(self.database, self.writer(run), message, **{**given, **values})

    async def claim(
        self, run: str, index: int = 0, *, step: int = 1, claim: bool = True, attempt: int = 1
    ) -> CallState:
        """Look a call up, and by default take it."""
        writer = self.writer(run)
        return await claim_call(self.database, writer, answer_id(run, step), index, claim=claim, attempt=attempt)

    async def result(
        self, run: str, index: int = 0, *, step: int = 1, value: JSONValue = "fine", **values: Any
    ) -> Saved:
        """Store the result of a call, with its event; `pending` rides along."""
        pending = cast("list[JSONObject]", values.pop("pending", []))
        row = self.result_row(run, index, step=step, value=value, **values)
        events: list[JSONValue] = [uap_event("tool_execution_end", step, {"index": index})]
        return await save_result(self.database, self.writer(run), row, events, pending)

    def result_row(
        self, run: str, index: int = 0, *, step: int = 1, value: JSONValue = "fine", **values: Any
    ) -> ResultRow:
        """The result of a call."""
        body = dumps(value)
        given: dict[str, Any] = {"attempt": 1, "is_error": False, "duration_ms": 7, "at": AT, **values}
        return ResultRow(answer_id(run, step), index, sha256=sha256_hex(body), body=body, **given)

    async def note(self, kind: str, run: str | None = None, **values: Any) -> tuple[str, str | None, list[JSONObject]]:
        """Record a note; a new one, unless `number` says that it is an old one."""
        self.notes += 1
        given: dict[str, Any] = {
            "execution": self.execution,
            "events": [run_event(kind, {})],
            "pending": [],
            "paused": None,
            "status": None,
            "wait": None,
        }
        given = {**given, **values}
        name = f"{given['execution']}:{given.pop('number', self.notes)}"
        return await runs.record(self.database, self.key, run=run, note=name, **given)

    async def ask(self, run: str, index: int = 0, **values: Any) -> str | None:
        """Park on a wait for a call; the id of the wait that is open then."""
        message = answer_id(run, 1)
        wait: JSONObject = {
            "id": wait_id(message, index),
            "kind": "outcome",
            "message": message,
            "index": index,
            "asked": {},
        }
        _, found, _ = await self.note("run.parked", run, **{"status": "parked", "wait": wait, "events": [], **values})
        return found

    async def end(self, run: str, status: str = "completed", **values: Any) -> JSONObject:
        """End a run."""
        pending = cast("list[JSONObject]", values.pop("pending", []))
        settle = dumps("it was not run")
        ending = Ending(
            status=status,
            error={"type": "Broken", "message": "it broke"} if status == "failed" else None,
            usage=USAGE,
            cycles=1,
            step=1,
            now=NOW,
            at=AT,
            settle=settle,
            settle_sha256=sha256_hex(settle),
            event=run_event(f"run.{status}", {"at": AT}),
        )
        return await runs.end_run(self.database, self.writer(run), dataclasses.replace(ending, **values), pending)

    async def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of the session but the head's time: equal before and after a call that changed nothing."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in OWN}
        async with self.database.driver() as connection:
            rows = await connection.fetch(ALL_ROWS, *self.key)
        for name, row in rows:
            found[name].append(json.loads(row))
        for head in found["session_heads"]:
            del head["touched_at"]
        return {name: sorted(found[name], key=itemgetter(*OWN[name].primary_key.columns.keys())) for name in OWN}

    async def head(self) -> dict[str, Any]:
        """The head row."""
        return (await self.rows())["session_heads"][0]

    async def set_head(self, **values: Any) -> None:
        """Set a flag of the head row that another part of the system sets."""
        async with self.database.transaction() as connection:
            mine = update(session_heads).where(session_heads.c.session_id == self.key.session)
            await connection.execute(mine.values(**values))

    async def events(self) -> list[Event]:
        """The event log."""
        return await read_events(self.database, self.key, after=0, limit=100_000)

    async def kinds(self) -> list[str]:
        """The types of the events, in order."""
        return [event.type for event in await self.events()]

    async def thread(self, *, discarded: bool = False) -> list[StoredMessage]:
        """The conversation."""
        return await read_messages(self.database, self.key, root_node_id(self.key.session), discarded=discarded)

    async def check(self) -> Facts:
        """Assert what must hold of any session."""
        status = {run.id: run.status for run in await list_runs(self.database, self.key)}
        facts = Facts(await self.events(), await self.thread(discarded=True), status)
        check_events(facts)
        check_thread(facts.messages)
        assert (await self.head())["last_seq"] == len(facts.events)
        return facts


def step_start(step: int) -> JSONObject:
    """The record that a step has begun."""
    return {"k": "step", "step": step}


def checkpoint(run: str, step: int, at: str = AT) -> JSONObject:
    """The record of a step's end."""
    record: JSONObject = {
        "id": checkpoint_id(run, step),
        "node": "node",
        "step": step,
        "position": 2 * step,
        "at": at,
        "usage": USAGE,
        "step_usage": USAGE,
        "cycles": step,
    }
    return {"k": "checkpoint", "r": record}


async def thrice(story: Story, call: Callable[[], Awaitable[Any]]) -> list[Any]:
    """What three equal calls answer; the second and third must leave every row as the first left it."""
    answers = [await call()]
    rows = await story.rows()
    for _ in range(2):
        answers.append(await call())
        assert await story.rows() == rows
    return answers


async def results(story: Story) -> list[Any]:
    """The results of the thread's last message."""
    message = (await story.thread())[-1].message
    assert isinstance(message, ToolResultMessage), json.dumps(message.to_json())
    return list(message.results)
