"""A tool call that asks an agent elsewhere: the activity opens the ask, and later takes its answer for the result.

Nothing runs in between: the run is parked on the ask's wait. The answer stays in the wait's row, so that an attempt that died
with it in hand takes nothing away.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from perdure.activities.call_results import CallResults, told
from perdure.activities.contracts import REMOTE, CallToolInput, CallToolResult
from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.services import Services
from perdure.errors import InvalidInput
from perdure.store.answers import Writer
from perdure.store.database import keep_trying
from perdure.store.remote_asks import AskRow, NewAsk, ask_id, find_answer, open_ask, read_ask
from perdure.store.tool_calls import CallState, Question
from perdure.testing.crash import crash_point
from perdure.uap.agent import Agent
from perdure.uap.cut import cut_value
from perdure.uap.ids import tool_call_key
from perdure.uap.remote_agent import RemoteAgentTool, asked_of
from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.redaction import known_secrets
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_loop import ReadyCall, run_prepared
from perdure.upp.tools import Tool, ToolContext

NO_ANSWER = "The agent did not answer in time. It was told that its answer is not wanted any more."
NOT_REMOTE = "Tool '{}' asks no agent elsewhere any more. Nothing was asked."


class RemoteCalls:
    """The calls of one worker that ask agents elsewhere."""

    def __init__(self, services: Services, results: CallResults) -> None:
        """Open asks in the store of `services`; keep what came of them with `results`."""
        self._services = services
        self._results = results

    async def ask(self, writer: Writer, call: CallToolInput, ready: ReadyCall, original: Tool | None) -> CallToolResult:
        """Open the ask of a call that may run, and have the run wait for its answer.

        Args:
            writer: the run.
            call: which.
            ready: with the arguments that count.
            original: the tool as it is deployed, with its own timeout.
        """
        if not isinstance(original, RemoteAgentTool):
            return await self._refuse(writer, call, ready, NOT_REMOTE.format(ready.call.tool_name))
        try:
            asked_of(ready.call.arguments)
        except InvalidInput as error:  # the model's mistake
            return await self._refuse(writer, call, ready, str(error))
        shown, cut = cut_value(known_secrets.json(ready.call.arguments))
        question: JSONObject = {
            "tool": original.name,
            "call": ready.call.tool_call_id,
            "url": original.url,
            "arguments": shown if cut is None else {"preview": shown},
        }
        if cut is not None:
            question["cut"] = cut
        new = NewAsk(
            agent=call.agent.partition("/")[0],
            tool=original.name,
            url=original.url,
            binding=original.binding,
            signed=original.needs_signature,
            peer=original.did,
            arguments=ready.call.arguments,
        )
        crash_point("remote.asking")
        opened = await keep_trying(
            lambda: open_ask(
                self._services.database,
                writer,
                call.message,
                call.index,
                Question(REMOTE, question, call.args_sha256, timeout=original.timeout),
                new,
                now=datetime.now(UTC),
            ),
            deadline=STORE_PATIENCE,
        )
        crash_point("remote.asked")
        if opened.state != "open":
            return CallToolResult(kind=opened.state)
        return CallToolResult(kind="parked", wait=opened.open, expires_s=opened.expires_s)

    async def _refuse(self, writer: Writer, call: CallToolInput, ready: ReadyCall, why: str) -> CallToolResult:
        return await self._results.save(writer, call, ready.call, told(ready.call, why, approved=ready.approved))

    async def answer(
        self, writer: Writer, call: CallToolInput, tool_call: ToolCall, known: CallState, agent: Agent
    ) -> CallToolResult | None:
        """The result of a call whose ask is answered, by the agent, by a person in its place, or by its time; else None."""
        if known.state not in ("pending", "running"):
            return None
        database = self._services.database
        answer = await keep_trying(
            lambda: find_answer(database, writer, call.message, call.index), deadline=STORE_PATIENCE
        )
        if answer is None:
            return None
        ident = ask_id(call.message, call.index)
        row = await keep_trying(lambda: read_ask(database, writer.key, ident), deadline=STORE_PATIENCE)
        execution = await self._execution(call, tool_call, answer, row, agent)
        if known.approval is not None:
            execution = dataclasses.replace(execution, approved=True)
        return await self._results.save(writer, call, tool_call, execution)

    async def _execution(
        self, call: CallToolInput, tool_call: ToolCall, answer: JSONObject, row: AskRow | None, agent: Agent
    ) -> ToolExecution:
        """The record of the call: the hooks that follow a call have their say on what came, as on any tool's result."""
        tool = agent.tool(tool_call.tool_name)
        asked = tool_call if row is None else dataclasses.replace(tool_call, arguments=row.arguments)
        if tool is None:
            execution = told(asked, _result(answer), is_error=_is_error(answer))
        else:
            given = _answering(tool, answer)
            context = ToolContext(
                call_id=tool_call.tool_call_id, idempotency_key=tool_call_key(call.message, call.index), attempt=1
            )
            execution = await run_prepared(ReadyCall(given, asked, None), context, agent.tool_strategy)
        if row is None:
            return execution
        passed = datetime.now(UTC) - row.made_at
        return dataclasses.replace(execution, duration_ms=max(0, int(passed.total_seconds() * 1000)))


def _answering(tool: Tool, answer: JSONObject) -> Tool:
    """A tool that returns, or raises, what came."""

    async def give(arguments: JSONObject) -> JSONValue:
        del arguments
        if _is_error(answer):
            said = _result(answer)
            raise RuntimeError(said if isinstance(said, str) else dumps(said).decode())
        return _result(answer)

    return Tool(tool.name, tool.description, tool.parameters, run=give)


def _is_error(answer: JSONObject) -> bool:
    return answer.get("decision") == "expired" or bool(answer.get("isError"))


def _result(answer: JSONObject) -> JSONValue:
    return NO_ANSWER if answer.get("decision") == "expired" else answer.get("result")
