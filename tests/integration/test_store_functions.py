"""The hot writes on a real PostgreSQL: repeated, overtaken and interleaved calls write their rows and events once."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, cast

import pytest
import pytest_asyncio
from sqlalchemy import update

from perdure.errors import KeyConflict
from perdure.store import runs
from perdure.store.answers import AnswerRow, Writer, append_deltas, read_delta_text, save_answer
from perdure.store.database import Database
from perdure.store.events import Event, read_events
from perdure.store.inputs import Accepted, Submission, submit, withdraw
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.runs import Begun, Ending, begin_run, list_runs
from perdure.store.sessions import read_session
from perdure.store.tables import metadata, session_heads
from perdure.store.tool_calls import CallState, ResultRow, Saved, claim_call, save_result
from perdure.store.waits import answer_wait, open_waits, read_wait
from perdure.uap.events import run_event, uap_event
from perdure.uap.ids import answer_id, checkpoint_id, new_id, results_id, root_node_id, wait_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall
from tests.integration.facts import Facts, check_events, check_thread
from tests.integration.stack import Stack
from tests.scale import scaled

NOW = datetime(2030, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
AT = "2030-01-02T03:04:05.678Z"
USAGE: JSONObject = {"inputTokens": 3, "outputTokens": 4}
OWN = {table.name: table for table in metadata.sorted_tables if table.name != "agents"}
ALL_ROWS = " union all ".join(
    f"select '{name}', to_json(t)::text from perdure.{name} t "
    f"where tenant_id = $1 and {'id' if name == 'sessions' else 'session_id'} = $2"
    for name in OWN
)
CONNECTIONS = 5

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
        return await save_answer(self.database, self.writer(run), row, events, pending)

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
        body = dumps(value)
        given: dict[str, Any] = {"attempt": 1, "is_error": False, "duration_ms": 7, "at": AT, **values}
        row = ResultRow(answer_id(run, step), index, sha256=sha256_hex(body), body=body, **given)
        events: list[JSONValue] = [uap_event("tool_execution_end", step, {"index": index})]
        return await save_result(self.database, self.writer(run), row, events, pending)

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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(stack: Stack) -> AsyncGenerator[Database]:
    """Connections that no worker uses; each test has a tenant and a session of its own."""
    opened = Database(stack.addresses.database_url, pool_size=CONNECTIONS)
    yield opened
    await opened.close()


@pytest.fixture
def story(database: Database) -> Story:
    """A session that is not there yet."""
    return Story(database, SessionKey(f"tenant-{uuid.uuid4().hex}", new_id()))


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


async def test_a_repeated_submit_is_one_input(story: Story) -> None:
    """The same key answers with the same run, and says that it was known."""
    first, second, third = await thrice(story, lambda: story.submit("hello", key="k"))
    assert [first.repeated, second.repeated, third.repeated] == [False, True, True]
    assert first.run == second.run == third.run
    assert await story.kinds() == ["run.queued"]
    with pytest.raises(KeyConflict):
        await story.submit("something else", key="k")


async def test_begin_run_takes_an_input_once(story: Story) -> None:
    """The first call makes run, message and event; the others find the open run as it was begun."""
    accepted = await story.submit("hello")
    first, second, third = await thrice(story, story.begin)
    assert [first.kind, second.kind, third.kind] == ["new", "adopted", "adopted"]
    assert {(begun.row or {})["run"] for begun in (first, second, third)} == {accepted.run}
    assert await story.kinds() == ["run.queued", "run.started"]
    assert [item.message.text for item in await story.thread()] == ["hello"]
    other = await story.begin(execution="execution-2", spec={"name": "other"})
    assert (other.row or {})["execution"] == "execution-1"
    assert (other.row or {})["spec"] == {"name": "s"}


async def test_begin_run_takes_inputs_in_order(story: Story) -> None:
    """Each end frees the session for the next input, until there is none."""
    accepted = [await story.submit(f"input {n}") for n in range(3)]
    taken: list[Any] = []
    while (begun := await story.begin()).kind != "nothing":
        taken.append((begun.row or {})["run"])
        await story.end(taken[-1])
    assert taken == [item.run for item in accepted]
    assert await story.begin() == Begun("nothing")
    await story.check()


async def test_begin_run_names_the_agent_that_owns_the_session(story: Story) -> None:
    """A workflow of another agent takes nothing."""
    await story.submit("hello")
    rows = await story.rows()
    assert await story.begin(agent="stranger") == Begun("agent", agent="teller")
    assert await story.rows() == rows


async def test_an_input_for_later_holds_up_no_other(story: Story) -> None:
    """An input that is not due is passed over, and taken once it is."""
    later = await story.submit("later", not_before=NOW + timedelta(hours=1))
    sooner = await story.submit("sooner")
    begun = await story.begin()
    assert (begun.row or {})["run"] == sooner.run
    await story.end(sooner.run)
    assert (await story.begin()).kind == "nothing"
    begun = await story.begin(now=NOW + timedelta(hours=1))
    assert (begun.row or {})["run"] == later.run


async def test_a_withdrawn_input_is_taken_by_nobody(story: Story) -> None:
    """Taking back what is queued happens once, with a terminal event; what has begun is not taken back."""
    begun = await story.run()
    queued = await story.submit("never mind")
    assert await thrice(story, lambda: withdraw(story.database, story.key, queued.run)) == [True, False, False]
    assert not await withdraw(story.database, story.key, begun)
    await story.end(begun)
    assert (await story.begin()).kind == "nothing"
    assert [event.run for event in await story.events() if event.type == "run.cancelled"] == [queued.run]


async def test_a_paused_session_gives_nothing(story: Story) -> None:
    """While it is paused no input is taken, but an open run is still found; after that the queue goes on."""
    run = await story.run()
    await story.submit("next")
    await story.note("session.paused", paused=True)
    adopted = await story.begin()
    assert (adopted.kind, adopted.paused) == ("adopted", True)
    await story.end(run)
    assert await story.begin() == Begun("nothing", paused=True)
    assert (await read_session(story.database, story.key)).status == "paused"
    await story.note("session.resumed", paused=False)
    assert (await story.begin()).kind == "new"


async def test_save_answer_stores_an_answer_once(story: Story) -> None:
    """The first call stores message, calls and events; the others, though they bring another answer, change nothing."""
    run = await story.run()
    assert await thrice(story, lambda: story.save(run, calls=2)) == ["won", "stored", "stored"]
    rows = await story.rows()
    assert await story.save(run, calls=3, text="said otherwise") == "stored"
    assert await story.rows() == rows
    assert [(row["index"], row["state"]) for row in rows["tool_calls"]] == [(0, "pending"), (1, "pending")]
    assert [item.message.text for item in await story.thread()] == ["tell me", "said"]
    assert await story.kinds() == ["run.queued", "run.started", "action"]


async def test_a_large_answer_is_kept_beside_its_row(story: Story) -> None:
    """A body beyond 64 KiB is a payload, stored once and read as if it were in its row."""
    run = await story.run()
    long = "long " * 20_000
    assert await thrice(story, lambda: story.save(run, text=long)) == ["won", "stored", "stored"]
    rows = await story.rows()
    assert [row["body"] for row in rows["messages"] if row["type"] == "assistant"] == [None]
    assert len(rows["payloads"]) == 1
    assert (await story.thread())[-1].message.text == long


async def test_records_that_ride_on_several_writes_are_written_once(story: Story) -> None:
    """A step's start and checkpoint that a repeated or later write brings again make no second row or event."""
    run = await story.run()
    pending = [step_start(1), checkpoint(run, 1), step_start(2)]
    await story.save(run, calls=1, pending=pending)
    rows = await story.rows()
    assert await story.save(run, calls=1, pending=pending) == "stored"
    await story.deltas(run, "", pending=pending)
    await story.note("", run, events=[], pending=pending)
    for name in ("checkpoints", "events", "runs"):
        assert (await story.rows())[name] == rows[name]
    await story.result(run, pending=pending)
    await story.end(run, pending=pending)
    kinds = Counter(await story.kinds())
    assert (kinds["step_start"], kinds["step_end"], kinds["checkpoint"]) == (2, 1, 1)
    await story.check()


async def test_a_record_of_a_lost_task_is_answered_as_it_was_written(story: Story) -> None:
    """The same checkpoint with a later time changes no row, and the writer is told the row's."""
    run = await story.run()
    first = [step_start(1), checkpoint(run, 1)]
    again = [step_start(1), checkpoint(run, 1, at="2031-01-01T00:00:00.000Z")]
    assert (await story.note("noted", run, pending=first))[2] == first
    assert (await story.note("noted", run, pending=again))[2] == first
    assert (await story.end(run, pending=again))["pending"] == first
    assert (await story.end(run, pending=again))["pending"] == first
    assert [row["at"] for row in (await story.rows())["checkpoints"]] == [AT]


async def test_deltas_are_not_doubled(story: Story) -> None:
    """A batch that is sent again, or sent after a later one, is known."""
    run = await story.run()
    assert await thrice(story, lambda: story.deltas(run, "one two")) == ["won"] * 3
    assert await thrice(story, lambda: story.deltas(run, "three", first=2)) == ["won"] * 3
    rows = await story.rows()
    assert await story.deltas(run, "one two") == "won"
    assert await story.rows() == rows
    assert await read_delta_text(story.database, story.key, run, answer_id(run, 1)) == "onetwothree"


async def test_deltas_of_an_overtaken_attempt_are_refused(story: Story) -> None:
    """Once a later attempt has taken the answer over, what the earlier one still sends is late."""
    run = await story.run()
    await story.deltas(run, "old")
    assert await thrice(story, lambda: story.deltas(run, "new", token="try-2", reset=True)) == ["won"] * 3
    rows = await story.rows()
    assert await story.deltas(run, "old again", first=1) == "late"
    assert await story.rows() == rows
    assert await story.deltas(run, "er", token="try-2", first=2) == "won"
    assert await read_delta_text(story.database, story.key, run, answer_id(run, 1)) == "newer"


async def test_deltas_of_an_answer_that_is_whole_are_refused(story: Story) -> None:
    """An attempt that still streams when its step is over, and the next one streams, adds nothing and resets nothing."""
    run = await story.run()
    await story.deltas(run, "zombie")
    await story.deltas(run, "good", token="try-2", reset=True)
    await story.save(run, calls=1)
    await story.result(run)
    await story.deltas(run, "second step", step=2)
    rows = await story.rows()
    assert await story.deltas(run, "zombie", first=1) == "late"
    assert await story.rows() == rows
    assert await story.deltas(run, "second step", step=2) == "won"
    assert await story.rows() == rows


async def test_claim_call_takes_a_pending_call_once(story: Story) -> None:
    """The first to claim finds it pending, all others find it running; a look takes nothing."""
    run = await story.run()
    await story.save(run, calls=1)
    assert [item.state for item in await thrice(story, lambda: story.claim(run, claim=False))] == ["pending"] * 3
    assert [item.state for item in await thrice(story, lambda: story.claim(run))] == ["pending", "running", "running"]
    states = await asyncio.gather(*(story.claim(run, attempt=n) for n in range(2, 7)))
    assert {item.state for item in states} == {"running"}
    assert {item.attempt for item in states} == {1}


async def test_claims_at_once_have_one_winner(story: Story) -> None:
    """Of ten attempts that claim a call at the same moment one finds it pending."""
    run = await story.run()
    await story.save(run, calls=1)
    states = await asyncio.gather(*(story.claim(run, attempt=n) for n in range(10)))
    assert Counter(item.state for item in states) == {"pending": 1, "running": 9}


async def test_save_result_stores_a_result_once(story: Story) -> None:
    """The first result stays; who brings another is told the first."""
    run = await story.run()
    await story.save(run, calls=1)
    first, second, third = await thrice(story, lambda: story.result(run, value={"n": 1}))
    rows = await story.rows()
    other = await story.result(run, value="another", is_error=True, attempt=2)
    assert await story.rows() == rows
    body = dumps({"n": 1})
    known = CallState("done", sha256=sha256_hex(body), size=len(body), duration_ms=7, attempt=1)
    made = next(row for row in rows["messages"] if row["type"] == "tool_result")
    assert first == Saved("won", batch=results_id(run, 1), batch_sha256=made["sha256"])
    assert [second, third, other] == [Saved("stored", known)] * 3
    claimed = await story.claim(run)
    assert claimed == known
    assert (await story.kinds())[-2:] == ["tool_execution_end", "observation"]
    assert [result.result for result in (await results(story))] == [{"n": 1}]


async def test_twenty_results_at_once_make_one_message(story: Story) -> None:
    """The last of a batch, whichever it is, makes the one tool-result message; the event numbers have no gap."""
    run = await story.run()
    await story.save(run, calls=20)
    saved = await asyncio.gather(*(story.result(run, n % 20, value=n % 20) for n in range(40)))
    assert Counter(item.kind for item in saved) == {"won": 20, "stored": 20}
    batches = [(item.batch, item.batch_sha256) for item in saved if item.batch is not None]
    messages = await story.thread()
    assert [item.message.type for item in messages] == ["user", "assistant", "tool_result"]
    assert batches == [(results_id(run, 1), messages[-1].sha256)]
    assert [(result.tool_call_id, result.result) for result in await results(story)] == [
        (f"call-{n}", n) for n in range(20)
    ]
    kinds = Counter(await story.kinds())
    assert (kinds["tool_execution_end"], kinds["observation"]) == (20, 1)
    await story.end(run)
    await story.check()


async def test_results_at_once_of_several_sessions_do_not_wait_for_each_other(database: Database) -> None:
    """Six sessions that store the same result at once each keep their own copy of it."""
    stories = [Story(database, SessionKey(f"tenant-{uuid.uuid4().hex}", new_id())) for _ in range(6)]

    async def whole(story: Story) -> None:
        run = await story.run()
        await story.save(run, calls=2)
        await asyncio.gather(story.result(run, 0), story.result(run, 1))
        await story.end(run)
        await story.check()
        assert len((await story.rows())["payloads"]) == 1

    await asyncio.gather(*(whole(story) for story in stories))


@pytest.mark.parametrize(
    "name", ['quoted "call"', "new\nline", "é漢😀", "nul\0", "lone \ud800", "\ufdd0d800", "back\\u0000slash"]
)
async def test_a_vendor_may_name_its_calls_as_it_likes(story: Story, name: str) -> None:
    """The tool-result message that SQL makes refers to each call by exactly the id that the model gave."""
    run = await story.run()
    await story.save(run, calls=[name])
    await story.result(run)
    assert [result.tool_call_id for result in await results(story)] == [name]


async def test_a_note_is_written_once(story: Story) -> None:
    """A note that is repeated, also after a later one, changes nothing; another execution names its own."""
    run = await story.run()
    assert [item[0] for item in await thrice(story, lambda: story.note("noted", run, number=2))] == ["won"] * 3
    await story.note("noted", run, number=1, paused=True)
    rows = await story.rows()
    await story.note("noted", run, number=2, paused=False)
    assert await story.rows() == rows
    await story.note("noted", run, number=1, execution="execution-2")
    assert (await story.kinds()).count("noted") == 3


async def test_a_note_says_how_the_run_stands(story: Story) -> None:
    """A run is parked and running again, and the session paused and not, as the notes say."""
    run = await story.run()
    await thrice(story, lambda: story.note("run.parked", run, number=1, status="parked", paused=True))
    assert (await runs.find_run(story.database, story.key.tenant, run)).status == "parked"
    assert (await read_session(story.database, story.key)).status == "paused"
    await story.note("run.resumed", run, number=2, status="running", paused=False)
    assert (await runs.find_run(story.database, story.key.tenant, run)).status == "running"
    assert (await read_session(story.database, story.key)).status == "running"


async def test_an_open_wait_is_reused(story: Story) -> None:
    """Whoever parks on the same call again waits for the same answer; another call has a wait of its own."""
    run = await story.run()
    await story.save(run, calls=2)
    own = wait_id(answer_id(run, 1), 0)
    assert [await story.ask(run), await story.ask(run), await story.ask(run, number=0)] == [own] * 3
    other = await story.ask(run, 1)
    assert {wait.id for wait in await open_waits(story.database, story.key.tenant)} == {own, other}
    assert other == wait_id(answer_id(run, 1), 1)


async def test_an_answer_is_handed_out_once(story: Story) -> None:
    """The first claim after the answer gets it, the next ones get none."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.claim(run)
    wait = await story.ask(run)
    assert (await story.claim(run)).answer is None
    await answer_wait(story.database, story.key.tenant, str(wait), {"outcome": "not_run"}, "somebody")
    claimed = await asyncio.gather(*(story.claim(run, attempt=n) for n in range(2, 7)))
    assert [item.answer for item in claimed if item.answer is not None] == [{"outcome": "not_run"}]
    assert (await read_wait(story.database, story.key.tenant, str(wait))).answered_by == "somebody"


async def test_after_a_used_answer_there_is_a_new_wait(story: Story) -> None:
    """Where the answer was handed out and nothing came of it, the next question has an id of its own."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.claim(run)
    own = wait_id(answer_id(run, 1), 0)
    found: list[Any] = []
    for n in range(3):
        found.append(await story.ask(run))
        await answer_wait(story.database, story.key.tenant, found[-1], {"outcome": str(n)}, "somebody")
        assert (await story.claim(run)).answer == {"outcome": str(n)}
    assert found == [own, f"{own}-1", f"{own}-2"]


async def test_a_question_that_is_repeated_after_its_answer_is_not_asked_again(story: Story) -> None:
    """A lost workflow task parks once more on a wait that was answered meanwhile: the answer counts, and is handed out."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.claim(run)
    wait = await story.ask(run, number=1)
    await answer_wait(story.database, story.key.tenant, str(wait), {"outcome": "not_run"}, "somebody")
    assert await story.ask(run, number=1) == wait
    assert await open_waits(story.database, story.key.tenant) == []
    assert (await story.claim(run)).answer == {"outcome": "not_run"}


async def test_an_answer_that_the_run_has_not_heard_of_stays_to_be_told(story: Story) -> None:
    """Who answered died before it could say so: another call's parking does not count as the run's having heard."""
    run = await story.run()
    await story.save(run, calls=2)
    first = str(await story.ask(run, 0))
    await answer_wait(story.database, story.key.tenant, first, {"outcome": "not_run"}, "somebody")
    await story.ask(run, 1)
    undelivered = [row["id"] for row in (await story.rows())["waits"] if row["answered_at"] and not row["delivered"]]
    assert undelivered == [first]


async def test_end_run_ends_a_run_once(story: Story) -> None:
    """The first end stands; one that says otherwise is told the first and changes nothing."""
    run = await story.run()
    first, second, third = await thrice(story, lambda: story.end(run))
    rows = await story.rows()
    other = await story.end(run, "failed", step=9, cycles=9)
    assert await story.rows() == rows
    assert (first["kind"], first["status"]) == ("won", "completed")
    for later in (second, third, other):
        told = {name: later[name] for name in ("kind", "status", "step", "usage", "cycles", "error")}
        assert told == {
            "kind": "stored", "status": "completed", "step": 1, "usage": USAGE, "cycles": 1, "error": None,
        }  # fmt: skip
        assert datetime.fromisoformat(str(later["at"])) == NOW
    session = await read_session(story.database, story.key)
    assert (session.status, session.active_run, session.runs, session.steps) == ("idle", None, 1, 1)
    assert session.usage == USAGE
    await story.check()


async def test_ends_at_once_have_one_winner(story: Story) -> None:
    """Of ten ends at the same moment one writes the terminal event."""
    run = await story.run()
    ends = await asyncio.gather(*(story.end(run, ("completed", "failed", "cancelled")[n % 3]) for n in range(10)))
    won = [str(end["status"]) for end in ends if end["kind"] == "won"]
    assert len(won) == 1
    assert {str(end["status"]) for end in ends} == set(won)
    await story.check()


async def test_writers_that_come_after_the_end_are_refused(story: Story) -> None:
    """What comes late changes nothing but the count of answers and results that came late."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.end(run)
    rows = await story.rows()
    pending = [step_start(2), checkpoint(run, 1)]
    assert [await story.save(run, pending=pending), await story.save(run, 2)] == ["late", "late"]
    assert [(await story.result(run, pending=pending)).kind for _ in range(2)] == ["late", "late"]
    assert [await story.deltas(run, "late", pending=pending) for _ in range(2)] == ["late", "late"]
    assert [(await story.claim(run)).state for _ in range(2)] == ["late", "late"]
    rows["session_heads"][0]["late_results"] = 4
    assert await story.rows() == rows
    assert (await read_session(story.database, story.key)).late_results == 4


async def test_writers_of_a_run_that_is_over_do_not_disturb_the_next(story: Story) -> None:
    """While the next run is open, whoever still writes for the last one is late."""
    old = await story.run()
    await story.save(old, calls=1)
    await story.end(old)
    run = await story.run("and then?")
    await story.save(run, calls=1)
    rows = await story.rows()
    assert await story.save(old, 2) == "late"
    assert (await story.result(old)).kind == "late"
    assert await story.deltas(old, "late", 2) == "late"
    assert (await story.claim(old)).state == "late"
    assert (await story.end(old, "cancelled"))["kind"] == "stored"
    rows["session_heads"][0]["late_results"] = 2
    assert await story.rows() == rows


async def test_a_late_note_neither_parks_nor_asks(story: Story) -> None:
    """A note about a run that is over leaves the run's status and opens no wait."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.end(run)
    assert await story.ask(run, pending=[step_start(2), checkpoint(run, 1)]) is None
    assert (await runs.find_run(story.database, story.key.tenant, run)).status == "completed"
    assert await open_waits(story.database, story.key.tenant) == []
    assert (await story.rows())["checkpoints"] == []


async def test_an_end_settles_the_calls_that_are_open(story: Story) -> None:
    """A call without a result gets the given text as an error; one that has its result keeps it."""
    run = await story.run()
    await story.save(run, calls=3)
    await story.claim(run, 0)
    await story.result(run, 1, value="was run")
    await thrice(story, lambda: story.end(run, "cancelled"))
    assert [(result.result, result.is_error) for result in await results(story)] == [
        ("it was not run", True),
        ("was run", False),
        ("it was not run", True),
    ]
    last = (await story.thread())[-1]
    assert last.message.metadata == {"perdure": {"settled": True}}
    assert last.message.timestamp == NOW
    told = [event.data.get("settled") for event in await story.events() if event.type == "observation"]
    assert told == [True]
    assert (await story.kinds())[-1] == "run.cancelled"
    await story.check()


async def test_an_end_keeps_the_answer_that_came_in_part(story: Story) -> None:
    """A partial answer is stored once, and never in place of one that became whole."""
    run = await story.run()
    whole, part = story.answer(run), story.answer(run, text="part of")
    place: JSONObject = {"id": part.id, "position": part.position, "step": 1, "sha256": part.sha256}
    await thrice(story, lambda: story.end(run, "cancelled", partial=place, partial_body=part.body))
    assert [item.message.text for item in await story.thread()] == ["tell me", "part of"]
    again = await story.run("again")
    whole = story.answer(again)
    place = {"id": whole.id, "position": whole.position, "step": 1, "sha256": part.sha256}
    await story.save(again)
    await story.end(again, "cancelled", partial=place, partial_body=part.body)
    assert [item.message.text for item in await story.thread()] == ["tell me", "part of", "again", "said"]
    await story.check()


async def test_an_end_closes_the_waits_of_its_run(story: Story) -> None:
    """Nobody is asked any more what a run that is over waited for."""
    run = await story.run()
    await story.save(run, calls=1)
    wait = str(await story.ask(run))
    await story.end(run, "cancelled")
    assert await open_waits(story.database, story.key.tenant) == []
    assert (await read_wait(story.database, story.key.tenant, wait)).answer == {"outcome": "ended"}


async def test_an_end_leaves_no_answer_to_be_told(story: Story) -> None:
    """An answer that came just before its run was cancelled is not told to the session again and again."""
    run = await story.run()
    await story.save(run, calls=1)
    wait = str(await story.ask(run))
    await answer_wait(story.database, story.key.tenant, wait, {"outcome": "not_run"}, "somebody")
    await story.end(run, "cancelled")
    assert [(row["delivered"], row["answer"]) for row in (await story.rows())["waits"]] == [
        (True, {"outcome": "not_run"})
    ]


async def test_the_messages_of_a_failed_run_leave_the_thread(story: Story) -> None:
    """The next run starts behind them, in another epoch, and does not see them."""
    failed = await story.run("bad")
    await story.save(failed, calls=2)
    await story.result(failed)
    await thrice(story, lambda: story.end(failed, "failed"))
    assert await story.thread() == []
    await story.submit("good")
    row = (await story.begin()).row or {}
    assert (row["start"], row["epoch"]) == (3, 1)
    await story.save(str(row["run"]))
    await story.end(str(row["run"]))
    assert [(item.position, item.message.text) for item in await story.thread()] == [(3, "good"), (4, "said")]
    assert [item.position for item in await story.thread(discarded=True)] == [0, 1, 2, 3, 4]
    await story.check()


@pytest.mark.parametrize("why", ["unknown", "deleting"])
async def test_a_session_that_is_gone_takes_no_write(story: Story, why: str) -> None:
    """Where there is no session, or it is being deleted, every write of a step answers so and leaves nothing."""
    run = "no-run"
    story.positions[run] = 0
    if why == "deleting":
        run = await story.run()
        await story.save(run, calls=1)
        await story.set_head(deleting=True)
    rows = await story.rows()
    assert (await story.begin()).kind == "gone"
    assert await story.save(run, 2, calls=1) == "gone"
    assert await story.deltas(run, "words", 2) == "gone"
    assert (await story.claim(run)).state == "gone"
    assert (await story.result(run)).kind == "gone"
    assert await story.note("noted", run, status="parked", paused=True) == ("gone", None, [])
    if why == "unknown":
        assert (await story.end(run))["kind"] == "gone"
    assert await story.rows() == rows


@pytest.mark.parametrize("seed", range(scaled(100)))
async def test_calls_that_are_repeated_and_interleaved_keep_the_order(story: Story, seed: int) -> None:
    """Whatever is sent twice, late, or by a second execution: events and thread hold, and each run ends once."""
    chance = random.Random(seed)
    for n in range(3):
        await story.submit(f"input {n}", key=f"input {n}")
    history: list[Callable[[], Awaitable[object]]] = []
    while (begun := await story.begin(execution=f"execution-{chance.randrange(2)}")).kind != "nothing":
        for layer in _layers(story, str((begun.row or {})["run"]), chance):
            calls = layer * 2 + [chance.choice(history) for _ in range(4) if history]
            chance.shuffle(calls)
            await _together(calls)
            history.extend(layer)
    await _together(history)
    facts = await story.check()
    assert len(facts.runs) == 3
    kinds = Counter((event.run, event.step, event.type) for event in facts.events)
    once = ("run.queued", "run.started", "step_start", "step_end", "checkpoint", "action", "observation")
    assert {count for (_, _, kind), count in kinds.items() if kind in once} == {1}
    rows = await story.rows()
    ended = sum(event.type == "tool_execution_end" for event in facts.events)
    assert ended == sum(row["duration_ms"] is not None for row in rows["tool_calls"])
    assert {row["state"] for row in rows["tool_calls"]} <= {"done"}
    for item in facts.messages:
        if isinstance(item.message, AssistantMessage) and item.run is not None:
            assert await read_delta_text(story.database, story.key, item.run, item.id) == "onetwothree"


async def _together(calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Run calls at once, as many as there are connections."""
    left = iter(calls)

    async def one_by_one() -> None:
        for call in left:
            await call()

    await asyncio.gather(*(one_by_one() for _ in range(CONNECTIONS)))


def _layers(story: Story, run: str, chance: random.Random) -> list[list[Callable[[], Awaitable[object]]]]:
    """The calls of one run by what must be there before them: those of one layer may come in any order."""
    layers: list[list[Callable[[], Awaitable[object]]]] = []
    pending: list[JSONObject] = []
    for step in range(1, chance.randint(1, 3) + 1):
        pending = [*pending, step_start(step)]
        count, riding = chance.randint(1, 4), list(pending)
        layers.append([_bound(story.deltas, run, "one two three", step, pending=riding)])
        layers.append([_bound(story.save, run, step, count, pending=riding)])
        layers.append([_bound(story.claim, run, index, step=step) for index in range(count)])
        stored = [_bound(story.result, run, index, step=step, value=index) for index in range(count)]
        layers.append(stored if chance.random() < 0.8 else stored[1:])
        if len(layers[-1]) < count:
            break
        pending = [checkpoint(run, step)]
    ends = [
        _bound(story.end, run, status, pending=pending)
        for status in chance.sample(("completed", "failed", "cancelled"), 2)
    ]
    note = _bound(story.note, "noted", run, number=chance.randint(1, 3), pending=pending)
    return [*layers, [note, *ends]]


def _bound(call: Callable[..., Awaitable[object]], *given: Any, **named: Any) -> Callable[[], Awaitable[object]]:
    return lambda: call(*given, **named)


async def results(story: Story) -> list[Any]:
    """The results of the thread's last message."""
    message = (await story.thread())[-1].message
    assert isinstance(message, ToolResultMessage), json.dumps(message.to_json())
    return list(message.results)
