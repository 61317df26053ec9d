"""Short tools that an answer calls, called by the activity that has bought it: a workflow hears of both at once.

All that is known of a call is in its row, as ever: the transaction that stores the answer marks it as running, if its effect
asks for that, and its result is stored before anybody hears of it. Whoever takes over from a dead worker finds the stored
answer, calls nothing ahead, and makes each call as a local activity, which looks at its row first.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Sequence
from typing import Any

from temporalio import activity

from perdure.activities.call_tool import MARKED, CallTool
from perdure.activities.contracts import CallToolInput, CallToolResult, GenerateInput, GenerateResult
from perdure.activities.lifeline import cancelled_by_user
from perdure.store.answers import AnswerRow, Writer
from perdure.uap.agent import Agent
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage


def is_called_ahead(call: GenerateInput, answer: AssistantMessage) -> bool:
    """Whether the tool calls of an answer are made with it: there are some, and all of them may be."""
    asked = answer.tool_calls or []
    return bool(asked) and all(one.tool_name in call.ahead for one in asked)


def with_marks(call: GenerateInput, agent: Agent, answer: AssistantMessage, row: AnswerRow) -> AnswerRow:
    """The row of an answer whose calls are made with it: they are marked, but for one that a person is to be asked about."""
    attempt, calls = activity.info().attempt, list[JSONObject]()
    for one, entry in zip(answer.tool_calls or [], row.calls, strict=True):
        tool = agent.tool(one.tool_name)
        is_marked = call.ahead[one.tool_name].effect in MARKED and (tool is None or tool.approval is None)
        calls.append({**entry, "mark": attempt} if is_marked else entry)
    return dataclasses.replace(row, calls=calls)


async def with_results(
    tools: CallTool, writer: Writer, call: GenerateInput, row: AnswerRow, result: GenerateResult
) -> GenerateResult:
    """An answer that was stored a moment ago by `row`, with the results of its tool calls."""
    requests = [
        CallToolInput(
            tenant=call.tenant,
            session=call.session,
            run=call.run,
            agent=call.agent,
            step=call.step,
            message=call.message,
            index=index,
            args_sha256=result.args[index],
            effect=call.ahead[str(entry["tool"])].effect,
            timeout_s=call.ahead[str(entry["tool"])].timeout_s,
        )
        for index, entry in enumerate(row.calls)
    ]
    calls = [
        tools.ahead(writer, request, marked="mark" in entry) for request, entry in zip(requests, row.calls, strict=True)
    ]
    return dataclasses.replace(result, called=await _all(calls))


async def _all(calls: Sequence[Coroutine[Any, Any, CallToolResult]]) -> list[CallToolResult | None]:
    """What the calls come to; None of one that has failed without a result: the workflow makes it again, and it says why.

    A run that is cancelled cancels them, and each says what became of it.
    """
    tasks = [asyncio.create_task(call, name="call a tool ahead") for call in calls]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if not cancelled_by_user():
            raise
    return [None if task.cancelled() or task.exception() is not None else task.result() for task in tasks]
