"""Deltas of ended runs are folded: the log says the same in fewer rows, and every reader can tell."""

from __future__ import annotations

import itertools
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from perdure.runtime.agent_events import AgentEvents
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import is_open
from perdure.runtime.unfolding import Unfolding
from perdure.store.answers import read_delta_text
from perdure.store.events import Event, read_events
from perdure.store.folding import EndedRun, Folder, find_unfolded, fold_run
from perdure.uap.options import RunOptions
from perdure.upp.json_value import JSONObject
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALL = 1_000_000  # other tests leave runs in the same database
WORDS = 12


def row(seq: int, kind: str, data: JSONObject, *, source: str = "upp", attempt: int = 1, size: int = 50) -> Event:
    return Event("s", seq, "r", 1, attempt, source, kind, data, NOW, size)


def delta(
    seq: int, kind: str = "text_delta", *, message: str = "m", index: int = 0, size: int = 50, **fields: Any
) -> Event:
    return row(seq, kind, {"message": message, "index": index, "delta": fields}, size=size)


def folded(events: Sequence[Event]) -> list[Event]:
    """The log after folding."""
    folder = Folder("r")
    for event in events:
        folder.add(event)
    rows = {event.seq: event for event in events}
    for fold in folder.finish():
        for seq in fold.removed:
            del rows[seq]
        rows[fold.seq] = row(fold.seq, rows[fold.seq].type, fold.data)
    return sorted(rows.values(), key=lambda event: event.seq)


async def ended_run(sessions: Sessions, words: int = WORDS) -> tuple[RunHandle, EndedRun]:
    """A run that has ended, with some deltas: of one try of its answer, which a busy machine may lose."""

    async def of_one_try() -> RunHandle | None:
        handle = await sessions.submit("talker", "talk", options=RunOptions(params={"words": words}))
        await handle.result()
        return None if "message.reset" in [event.type async for event in handle.events()] else handle

    handle = await eventually(of_one_try, what="a run whose answer was begun once")
    found = await handle.status()
    assert found.first_seq is not None
    assert found.last_seq is not None
    run = EndedRun(found.key, found.id, found.first_seq, found.last_seq)

    async def at_rest() -> bool:  # the session's execution looks into its inbox once more, and holds it meanwhile
        return not await is_open(sessions.client, found.key)

    await eventually(at_rest, what="the end of the session's execution")
    return handle, run


async def log(sessions: Sessions, run: EndedRun, after: int = 0) -> list[Event]:
    return await read_events(sessions.database, run.key, after=after)


def text(events: Sequence[Event]) -> str:
    return "".join(
        cast("dict[str, Any]", event.data["delta"])["text"] for event in events if event.type == "text_delta"
    )


async def test_a_block_becomes_one_event_and_numbers_are_missing_only_in_its_range(
    stack: Stack, steady_worker: WorkerProcess
) -> None:
    async with stack.connect() as sessions:
        handle, run = await ended_run(sessions)
        before = await log(sessions, run)
        assert await fold_run(sessions.database, run)
        after = await log(sessions, run)
        said = await read_delta_text(sessions.database, run.key, run.id, str(folded_rows(after)[0].data["message"]))
    deltas = [event for event in before if event.type == "text_delta"]
    (one,) = folded_rows(after)
    assert len(deltas) == WORDS
    assert one.data["folded"] == {"from": deltas[0].seq, "to": deltas[-1].seq, "lengths": [len("word ")] * WORDS}
    assert text(after) == text(before) == said == "word " * WORDS
    gone = {event.seq for event in before} - {event.seq for event in after}
    assert gone == {event.seq for event in deltas[:-1]}
    assert [e for e in after if e.type != "text_delta"] == [e for e in before if e.type != "text_delta"]
    await check_session(stack, handle.session)


def folded_rows(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.folded_from is not None]


async def test_folding_again_changes_nothing(stack: Stack, steady_worker: WorkerProcess) -> None:
    async with stack.connect() as sessions:
        _, run = await ended_run(sessions)
        assert await fold_run(sessions.database, run)
        after = await log(sessions, run)
        assert await fold_run(sessions.database, run)
        assert await log(sessions, run) == after
        async with sessions.database.driver() as connection:  # as a rebuild leaves the run's row
            await connection.execute("update perdure.runs set folded = false where id = $1", run.id)
        assert run in await find_unfolded(sessions.database, after=timedelta(0), limit=ALL)
        assert await fold_run(sessions.database, run)
        assert await log(sessions, run) == after
        assert run not in await find_unfolded(sessions.database, after=timedelta(0), limit=ALL)


async def test_runs_are_due_after_the_grace_time(stack: Stack, steady_worker: WorkerProcess) -> None:
    async with stack.connect() as sessions:
        _, run = await ended_run(sessions)
        assert run not in await find_unfolded(sessions.database, after=timedelta(minutes=5), limit=ALL)
        assert run in await find_unfolded(sessions.database, after=timedelta(0), limit=ALL)
        await fold_run(sessions.database, run)


async def test_a_session_that_is_busy_is_left_for_later(stack: Stack, steady_worker: WorkerProcess) -> None:
    async with stack.connect() as sessions:
        _, run = await ended_run(sessions)
        before = await log(sessions, run)
        async with sessions.database.driver() as connection, connection.transaction():
            await connection.execute(
                "select 1 from perdure.session_heads where session_id = $1 for update", run.key.session
            )
            assert not await fold_run(sessions.database, run)
        assert await log(sessions, run) == before
        assert await fold_run(sessions.database, run)


@pytest.mark.parametrize("had", [0, 1, 5, WORDS - 1])
async def test_a_reader_who_resumes_gets_the_event_once_and_has_the_text_once(
    stack: Stack, steady_worker: WorkerProcess, had: int
) -> None:
    """Inside the range or before it; a stream of the library adds only what is new."""
    async with stack.connect() as sessions:
        _, run = await ended_run(sessions)
        deltas = [event for event in await log(sessions, run) if event.type == "text_delta"]
        seen = [
            event
            for event in await log(sessions, run)
            if event.seq <= (deltas[had - 1].seq if had else deltas[0].seq - 1)
        ]
        events = AgentEvents(sessions.database, run.key, run.id, "agent")
        told = [item for event in seen for item in await events.read(event)]
        await fold_run(sessions.database, run)
        rest = await log(sessions, run, after=seen[-1].seq)
        told += [item for event in rest for item in await events.read(event)]
    assert [event.seq for event in folded_rows(rest)] == [deltas[-1].seq]
    assert folded_rows(rest)[0].folded_from == deltas[0].seq
    pieces = [item.upp.delta.text or "" for item in told if item.upp is not None and item.upp.type == "text_delta"]
    assert "".join(pieces) == "word " * WORDS


async def test_workers_fold_as_they_sweep(stack: Stack) -> None:
    worker = WorkerProcess(stack, PERDURE_FOLD_AFTER="0").wait_ready()
    try:
        async with stack.connect() as sessions:
            handle, run = await ended_run(sessions)

            async def is_folded() -> bool:
                return bool(folded_rows(await log(sessions, run)))

            await eventually(is_folded, what="the folding")
        await check_session(stack, handle.session)
    finally:
        worker.kill()


async def test_every_try_of_an_answer_stands_for_itself() -> None:
    """A reader heeds the reset between them."""
    reset = row(3, "message.reset", {"message": "m", "attempt": 1}, source="run")
    after = folded([delta(1, text="a"), delta(2, text="b"), reset, delta(4, text="a"), delta(5, text="c")])
    assert [(event.seq, event.folded_from) for event in after] == [(2, 1), (3, None), (5, 4)]


async def test_blocks_that_come_at_once_are_folded_each() -> None:
    after = folded([delta(n, message="mn"[n % 2], text=str(n)) for n in range(1, 7)])
    assert [(event.seq, event.folded_from, text([event])) for event in after] == [(5, 1, "135"), (6, 2, "246")]


async def test_what_a_delta_adds_is_kept_whatever_it_is() -> None:
    calls = [("a", "{"), ("a", '"x":1}'), ("b", "{}")]
    after = folded(
        [
            *(delta(n, "reasoning_delta", text="t") for n in (1, 2)),
            *(
                delta(n, "tool_call_delta", index=1, toolCallId=name, toolName="f", argumentsJson=piece)
                for n, (name, piece) in enumerate(calls, 3)
            ),
            *(delta(n, "image_delta", index=2, data=b64encode(b"x" * n).decode()) for n in (6, 7)),
        ]
    )
    assert [event.data["delta"] for event in after] == [
        {"text": "tt"},
        {"toolCallId": "a", "toolName": "f", "argumentsJson": '{"x":1}'},
        {"toolCallId": "b", "toolName": "f", "argumentsJson": "{}"},
        {"data": b64encode(b"x" * 13).decode()},
    ]


async def test_a_block_too_long_for_a_frame_becomes_several_events() -> None:
    events = [delta(n, text="x", size=50_000) for n in range(1, 7)]
    after = folded(events)
    assert [(event.folded_from, event.seq) for event in after] == [(1, 2), (3, 4), (5, 6)]
    for first in range(7):
        reader = Unfolding()
        pieces = [reader.new_in(event) for event in [*events[:first], *(e for e in after if e.seq > first)]]
        assert text(pieces) == "xxxxxx", first


async def test_a_reader_of_bytes_has_them_once_too() -> None:
    events = [delta(n, "audio_delta", data=b64encode(bytes([n] * n)).decode()) for n in range(1, 5)]
    reader = Unfolding()
    rest = [reader.new_in(event) for event in itertools.chain(events[:2], folded(events))]
    assert rest[-1].data["delta"] == {"data": b64encode(bytes([3] * 3 + [4] * 4)).decode()}
    assert "folded" not in rest[-1].data


async def test_other_runs_and_what_strategies_tell_stay_as_they_are() -> None:
    other = Event("s", 1, "other", 1, 1, "upp", "text_delta", {}, NOW)
    own = [row(n, "text_delta", {"n": n, "upp": {}}, source="own") for n in (2, 3)]
    assert folded([other, *own]) == [other, *own]
