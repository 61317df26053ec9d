"""Calls that a person approves: asked once, answered once, run with what was approved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from perdure.errors import InvalidInput, UnknownWait, WaitAnswered, WaitStale
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.waits import WaitRow
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from tests.integration.facts import check_session, read_facts
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.sub_agents import ask
from tests.integration.waiting import APP, asked, call, new_name, paid, results, submit

APPROVE: JSONObject = {"decision": "approve"}


@pytest.fixture(scope="module")
def clerks(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker that no test kills."""
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


async def ever_asked(sessions: Sessions, handle: RunHandle, count: int = 1) -> list[WaitRow]:
    """A session's waits once there are so many, also those whose time is over, in the order of the calls."""
    sql = "select id from perdure.waits where session_id = $1 order by index"

    async def enough() -> list[str] | None:
        async with sessions.database.driver() as connection:
            found = [str(row["id"]) for row in await connection.fetch(sql, handle.session)]
        return found if len(found) >= count else None

    return [await sessions.wait(wait) for wait in await eventually(enough, what=f"{count} waits")]


async def test_l45_of_approvers_at_the_same_moment_one_wins(stack: Stack, clerks: WorkerProcess) -> None:
    """L45: Approvals and rejections of one call from two clients: one counts, the others are told whose it was."""
    name = new_name()
    async with stack.connect() as sessions, stack.connect() as others:
        handle = await submit(sessions, name, [call("pay", name, 5)], "done")
        (wait,) = await asked(sessions, handle)
        answers: list[JSONObject] = [APPROVE, {"decision": "reject", "reason": "no"}] * 4
        tries = [
            (others if place % 2 else sessions).answer(wait.id, answer, by=f"person {place}")
            for place, answer in enumerate(answers)
        ]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        (won,) = [outcome for outcome in outcomes if isinstance(outcome, WaitRow)]
        lost = [outcome for outcome in outcomes if not isinstance(outcome, WaitRow)]
        assert all(isinstance(one, WaitAnswered) and str(won.answered_by) in str(one) for one in lost), lost
        turn = await handle.result()
        assert won.answer is not None
        assert paid(stack, name) == ([5] if won.answer["decision"] == "approve" else [])
        (execution,) = turn.tool_executions
        assert execution.approved is (won.answer["decision"] == "approve")
        with pytest.raises(UnknownWait):
            await sessions.answer("no such wait", APPROVE, by="me")
    facts = await check_session(stack, handle.session)
    (told,) = [event.data for event in facts.events if event.type == "wait.answered"]
    assert (told["decision"], told["by"]) == (won.answer["decision"], won.answered_by)


async def test_l48_what_runs_is_what_was_approved(stack: Stack, clerks: WorkerProcess) -> None:
    """L48: A model that writes other arguments each time it is asked is not asked again."""
    name = new_name()
    async with stack.connect() as sessions:
        handle = await sessions.submit("dicey", name)
        (wait,) = await asked(sessions, handle)
        arguments = (await sessions.wait(wait.id)).asked["arguments"]
        assert isinstance(arguments, dict)
        assert wait.args_sha256 == sha256_hex(dumps(arguments))
        await sessions.answer(wait.id, APPROVE, by="me")
        await handle.result()
    assert paid(stack, name) == [arguments["amount"]]


async def test_l50_going_on_from_before_an_approval_asks_again(stack: Stack, clerks: WorkerProcess) -> None:
    """L50: The checkpoint before the call knows no approval of it: what was approved was another call."""
    name = new_name()
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [call("pay_small", name, 1)], [call("pay", name, 2)], "done")
        (wait,) = await asked(sessions, handle)
        await sessions.answer(wait.id, APPROVE, by="me")
        await handle.result()
        facts = await read_facts(sessions, handle.session)
        first = next(str(event.data["checkpointId"]) for event in facts.events if event.type == "checkpoint")
        again = await sessions.resume_run(handle.session, first)
        (other,) = await asked(sessions, again)
        assert other.id != wait.id
        assert paid(stack, name) == [1, 2]
        await sessions.answer(other.id, {"decision": "reject"}, by="me")
        assert (await again.result()).response.text == "done"
    assert paid(stack, name) == [1, 2]


async def test_a_grandchilds_approval_is_in_the_roots_list(stack: Stack, clerks: WorkerProcess) -> None:
    """Three levels deep, with its path; answered there, it goes on there."""
    name = new_name()
    inner = ask("manager", name, [ask("clerk", name, [call("pay", name, 9)], "paid")], "managed")
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [inner], "done", agent="owner")
        (wait,) = await asked(sessions, handle)
        assert (wait.root, wait.path, wait.kind) == (handle.session, "owner/manager/clerk", "approval")
        assert wait.key.session != handle.session
        await sessions.answer(wait.id, APPROVE, by="me")
        assert (await handle.result()).response.text == "done"
    assert paid(stack, name) == [9]


async def test_a_call_is_edited_rejected_or_answered(stack: Stack, clerks: WorkerProcess) -> None:
    """The tool gets the edit, the model the reason, or the answer in the tool's place; the record says which."""
    name = new_name()
    edit: JSONObject = {"name": name, "to": "y", "amount": 20}
    answers: list[JSONObject] = [
        {**APPROVE, "arguments": edit},
        {"decision": "reject", "reason": "too much"},
        {"decision": "answer", "result": {"paid": "in cash"}},
    ]
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [call("pay_once", name, amount) for amount in (1, 2, 3)], "done")
        waits = await asked(sessions, handle, 3)
        for wait, answer in zip(waits, answers, strict=True):
            await sessions.answer(wait.id, answer, by="me")
        turn = await handle.result()
        stored = (await sessions.wait(waits[0].id)).answer
    assert stored is not None
    assert stored["arguments_sha256"] == sha256_hex(dumps(edit))
    assert paid(stack, name) == [20]
    told = results(turn)
    assert told[0] == ("paid 20 to y", False)
    assert told[1][1]
    assert "too much" in str(told[1][0])
    assert told[2] == ({"paid": "in cash"}, False)
    assert [execution.approved for execution in turn.tool_executions] == [True, False, False]
    assert turn.tool_executions[0].arguments == edit


async def test_an_approval_expires(stack: Stack, clerks: WorkerProcess) -> None:
    """Nobody answers in time: the model is told, the run goes on, and an answer is refused."""
    name = new_name()
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [call("pay_soon", name)], "done")
        (wait,) = await ever_asked(sessions, handle)
        assert wait.expires_at is not None
        turn = await handle.result()
        with pytest.raises(WaitStale):
            await sessions.answer(wait.id, APPROVE, by="me")
        row = await sessions.wait(wait.id)
    assert (row.answer, row.answered_by) == ({"decision": "expired"}, None)
    assert paid(stack, name) == []
    ((result, is_error),) = results(turn)
    assert is_error
    assert "in time" in str(result)


async def test_a_predicate_decides_or_asks(stack: Stack, clerks: WorkerProcess) -> None:
    """It lets a call run, denies it, or has a person decide."""
    name = new_name()
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [call("pay_small", name, amount) for amount in (5, -1, 500)], "done")
        (wait,) = await asked(sessions, handle)
        await sessions.answer(wait.id, APPROVE, by="me")
        turn = await handle.result()
    assert paid(stack, name) == [5, 500]
    assert [execution.approved for execution in turn.tool_executions] == [True, False, True]


async def test_s17_an_approval_of_other_arguments_or_of_a_run_that_ended_is_stale(
    stack: Stack, clerks: WorkerProcess
) -> None:
    """S17: It is bound to the arguments that were looked at, and to its run."""
    name = new_name()
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [call("pay", name)], "done")
        (wait,) = await asked(sessions, handle)
        with pytest.raises(WaitStale):
            await sessions.answer(wait.id, {**APPROVE, "args_sha256": sha256_hex(b"{}")}, by="me")
        async with sessions.database.driver() as connection:
            sql = "update perdure.tool_calls set args_sha256 = $2 where session_id = $1 returning args_sha256"
            await connection.execute(sql, handle.session, "another")
        with pytest.raises(WaitStale):
            await sessions.answer(wait.id, APPROVE, by="me")
        await sessions.cancel(handle.session)
        with pytest.raises(WaitStale, match="ended"):
            await sessions.answer(wait.id, APPROVE, by="me")
    assert paid(stack, name) == []


async def test_an_answer_of_another_form_is_refused(stack: Stack, clerks: WorkerProcess) -> None:
    """Nothing of it is stored; the wait stays open."""
    name = new_name()
    wrong: list[JSONObject] = [
        {},
        {"decision": "yes"},
        {"decision": "approve", "arguments": [1]},
        {"decision": "approve", "reason": "x"},
        {"decision": "answer"},
        {"outcome": "happened"},
        {"decision": "expired"},
    ]
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [call("pay", name)], "done")
        (wait,) = await asked(sessions, handle)
        for answer in wrong:
            with pytest.raises(InvalidInput):
                await sessions.answer(wait.id, answer, by="me")
        await sessions.answer(wait.id, APPROVE, by="me")
        await handle.result()


async def test_the_list_is_paged_by_key(stack: Stack, clerks: WorkerProcess) -> None:
    """Each wait once, forwards and backwards."""
    name = new_name()
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [call("pay", name, amount) for amount in range(5)], "done")
        whole = [wait.id for wait in sorted(await asked(sessions, handle, 5), key=lambda row: (row.asked_at, row.id))]
        seen: list[WaitRow] = []
        while page := await sessions.waits(
            handle.session, after=(seen[-1].asked_at, seen[-1].id) if seen else None, limit=2
        ):
            seen += page
        back = await sessions.waits(handle.session, before=(seen[-1].asked_at, seen[-1].id), limit=2)
        await sessions.cancel(handle.session)
    assert [wait.id for wait in seen] == whole
    assert [wait.id for wait in back] == whole[2:4]
