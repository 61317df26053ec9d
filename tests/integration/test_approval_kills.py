"""Approvals whatever is killed meanwhile: the question stays open, and what was approved is run no more often than allowed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.upp.json_value import JSONObject
from tests.integration.facts import check_session, read_facts
from tests.integration.stack import Stack
from tests.integration.waiting import asked, call, new_name, paid, results, submit, until_ended, worker

APPROVE: JSONObject = {"decision": "approve"}


async def test_l40_l49_l53_three_asks_of_one_tool_are_answered_in_any_order(stack: Stack) -> None:
    """L40, L49, L53: All processes are killed between the answers; the list shows what is open, and each answer goes to its call."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack):
            handle = await submit(sessions, name, [call("pay", name, amount) for amount in (1, 2, 3)], "done")
            waits = await asked(sessions, handle, 3)
        for ended, place in enumerate((2, 0, 1), start=1):
            assert len(await sessions.waits(handle.session)) == 4 - ended
            await sessions.answer(waits[place].id, APPROVE, by=f"person {place}")
            with worker(stack):
                await until_ended(sessions, handle, ended)
        with worker(stack):
            turn = await handle.result()
        assert await sessions.waits(handle.session) == []
    assert paid(stack, name) == [3, 1, 2]
    assert results(turn) == [(f"paid {amount} to x", False) for amount in (1, 2, 3)]
    await check_session(stack, handle.session)


@pytest.mark.parametrize("effect", ["pay", "pay_once", "pay_by_key"])
async def test_l32_s17_an_approved_call_is_not_run_again_by_its_old_approval(
    stack: Stack, tmp_path: Path, effect: str
) -> None:
    """L32, S17: The worker dies after the effect, before its result is stored: the effect class decides."""
    name = new_name()
    mark = str(tmp_path / "c")
    async with stack.connect() as sessions:
        with worker(stack, PERDURE_CRASH_AT="call_tool.ran", PERDURE_CRASH_ONCE=mark) as first:
            handle = await submit(sessions, name, [call(effect, name, 7)], "done")
            (wait,) = await asked(sessions, handle)
            await sessions.answer(wait.id, APPROVE, by="me")
            await asyncio.to_thread(first.wait_dead)
        with worker(stack):
            if effect == "pay_once":
                (unknown,) = await asked(sessions, handle)
                assert (unknown.kind, unknown.id == wait.id) == ("outcome", False)
                await sessions.answer(unknown.id, {"outcome": "happened", "result": "seen"}, by="me")
            turn = await handle.result()
    ((result, is_error),) = results(turn)
    assert paid(stack, name) == ([7, 7] if effect == "pay_by_key" else [7])
    expected = {"pay": ("outcome of this call is not known", True), "pay_once": ("seen", False)}
    text, failed = expected.get(effect, ("paid 7 to x", False))
    assert text in str(result)
    assert is_error is failed


@pytest.mark.parametrize("point", ["approval.asking", "approval.asked"])
async def test_a_worker_that_dies_while_it_asks_asks_once(stack: Stack, tmp_path: Path, point: str) -> None:
    """There is one wait, and nothing is run before its answer."""
    name = new_name()
    async with stack.connect() as sessions:
        with worker(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")) as first:
            handle = await submit(sessions, name, [call("pay", name, 4)], "done")
            await asyncio.to_thread(first.wait_dead)
        with worker(stack):
            (wait,) = await asked(sessions, handle)
            assert paid(stack, name) == []
            await sessions.answer(wait.id, APPROVE, by="me")
            await handle.result()
        facts = await read_facts(sessions, handle.session)
    assert paid(stack, name) == [4]
    assert [event.data["wait"] for event in facts.events if event.type == "wait.answered"] == [wait.id]
