"""Short tools that an answer calls, called by the activity that has bought it: a workflow hears of both at once.

All that is known of a call is in its row, as ever: it is marked before it runs if its effect asks for that, and its result is
stored before anybody hears of it. Whoever takes over from a dead worker finds the stored answer, calls nothing ahead, and
makes each call as a local activity, which looks at its row first.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Sequence
from typing import Any

from temporalio import activity

from perdure.activities.call_tool import CallTool
from perdure.activities.contracts import CallToolInput, CallToolResult, GenerateInput, GenerateResult
from perdure.activities.lifeline import STORE_PATIENCE, cancelled_by_user
from perdure.activities.services import Services
from perdure.store.answers import Writer, is_paused
from perdure.store.database import keep_trying


async def with_results(
    services: Services, tools: CallTool, writer: Writer, call: GenerateInput, result: GenerateResult
) -> GenerateResult:
    """An answer that was stored a moment ago, with the results of its tool calls, if all of them may be made ahead."""
    if not call.ahead or not result.args or result.stored:
        return result
    answer = await services.answer(writer.key, call.message)
    asked = answer.tool_calls or []
    if any(one.tool_name not in call.ahead for one in asked) or await _is_paused(services, writer):
        return result
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
            effect=call.ahead[one.tool_name].effect,
            timeout_s=call.ahead[one.tool_name].timeout_s,
        )
        for index, one in enumerate(asked)
    ]
    return dataclasses.replace(result, called=await _all([tools.ahead(writer, request) for request in requests]))


async def _is_paused(services: Services, writer: Writer) -> bool:
    """Whether the run was paused while its model was asked. As long as a local activity runs it hears of no pause."""
    if activity.info().is_local:
        return False
    return await keep_trying(lambda: is_paused(services.database, writer.key), deadline=STORE_PATIENCE)


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
