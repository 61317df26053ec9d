"""`generate`: one model call. Its answer is stored before Temporal hears of it, and is never bought again once stored."""

from __future__ import annotations

import asyncio

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.ask import ask
from perdure.activities.contracts import GenerateInput, GenerateResult
from perdure.activities.deltas import DeltaLog
from perdure.activities.lifeline import STORE_PATIENCE, beating, cancelled_by_user, writer_of
from perdure.activities.services import Services
from perdure.store.answers import AnswerRow, Writer, save_answer
from perdure.store.database import keep_trying
from perdure.store.messages import StoredMessage, read_message
from perdure.testing.crash import crash_point
from perdure.uap.agent import Agent
from perdure.uap.answer import accepted
from perdure.uap.cut import cut_answer
from perdure.uap.events import action_data, uap_event, upp_event
from perdure.uap.request import build_request
from perdure.upp.json_value import JSONObject, JSONValue, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage, Message, message_from_json
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.stream import tool_execution_start
from perdure.upp.usage import empty_usage


class Generate:
    """The model calls of one worker."""

    def __init__(self, services: Services) -> None:
        """Call the models of the agents in `services`."""
        self._services = services

    @activity.defn(name=contracts.GENERATE)
    async def generate(self, call: GenerateInput) -> GenerateResult:
        """Buy one answer, stream it into the event log, store it, return it cut.

        Raises:
            UPPError: the model could not be used; retryable errors have been retried here.
            UnknownAgent: this worker does not serve the agent.
        """
        async with beating():
            crash_point("generate.begun")
            result = await self._generate(call)
            crash_point("generate.reporting")
            return result

    async def _generate(self, call: GenerateInput) -> GenerateResult:
        writer = writer_of(call.tenant, call.session, call.run)
        attempt = activity.info().attempt
        again = call.adopted or attempt > 1
        if again:
            stored = await self._stored(writer, call)
            if stored is not None:
                return stored
        agent = self._services.app.agent(call.agent)
        deltas = DeltaLog(self._services, writer, call, attempt=attempt, again=again)
        try:
            return await self._buy(agent, writer, call, deltas)
        finally:
            deltas.stop()

    async def _buy(self, agent: Agent, writer: Writer, call: GenerateInput, deltas: DeltaLog) -> GenerateResult:
        try:
            request = await keep_trying(lambda: self._request(agent, writer, call), deadline=STORE_PATIENCE)
            crash_point("generate.buying")
            model = agent.model.bind()
            response = accepted(await ask(model, request, deltas), model, self._services.prices)
            crash_point("generate.bought")
        except asyncio.CancelledError:
            if not cancelled_by_user():
                raise
            return await self._save_partial(agent, writer, call, deltas)
        return await self._save(agent, writer, call, deltas, response)

    async def _stored(self, writer: Writer, call: GenerateInput) -> GenerateResult | None:
        database = self._services.database
        row = await keep_trying(lambda: read_message(database, writer.key, call.message), deadline=STORE_PATIENCE)
        return None if row is None else self._result_of(row)

    def _result_of(self, row: StoredMessage) -> GenerateResult:
        message = row.message
        assert isinstance(message, AssistantMessage), "stored under an answer's id"
        self._services.remember(row.id, message)
        return GenerateResult(
            message=cut_answer(message).to_json(),
            sha256=row.sha256,
            usage=row.usage or {},
            stop=row.stop or "",
            args=_argument_hashes(message),
            stored=True,
        )

    async def _request(self, agent: Agent, writer: Writer, call: GenerateInput) -> LLMRequest:
        options = await self._services.options(writer)
        stored = await self._services.cache.read(writer.key, call.node, end=call.position, epoch=call.epoch)
        messages: list[Message]
        if options.history is None:
            messages = [item.message for item in stored]
        else:
            messages = [message_from_json(item) for item in options.history]
            messages += [item.message for item in stored if item.position >= call.start]
        return build_request(agent, options, messages)

    async def _save(
        self, agent: Agent, writer: Writer, call: GenerateInput, deltas: DeltaLog, response: LLMResponse
    ) -> GenerateResult:
        message = response.message
        left, pending = await deltas.finish()
        row = await self._row(agent, writer, call, response)
        events: list[JSONValue] = [*left, *_opening_events(call, message)]
        crash_point("generate.storing")
        kind = await keep_trying(
            lambda: save_answer(self._services.database, writer, row, events, pending), deadline=STORE_PATIENCE
        )
        crash_point("generate.stored")
        self._services.announcer.changed(writer.key)
        if kind == "stored":
            return await self._stored(writer, call) or GenerateResult(kind="late")
        if kind != "won":
            return GenerateResult(kind=kind)
        self._services.remember(call.message, message)
        return GenerateResult(
            message=cut_answer(message).to_json(),
            sha256=row.sha256,
            usage=row.usage,
            stop=response.stop_reason,
            args=_argument_hashes(message),
        )

    async def _row(self, agent: Agent, writer: Writer, call: GenerateInput, response: LLMResponse) -> AnswerRow:
        body = dumps(response.message.to_json())
        options = await self._services.options(writer)
        client_side = {str(tool["name"]) for tool in options.client_tools}
        calls: list[JSONObject] = []
        for tool_call, sha256 in zip(
            response.message.tool_calls or [], _argument_hashes(response.message), strict=True
        ):
            tool = agent.tool(tool_call.tool_name)
            effect = tool.effect.value if tool else "client" if tool_call.tool_name in client_side else "none"
            calls.append(
                {
                    "call_id": tool_call.tool_call_id,
                    "tool": tool_call.tool_name,
                    "args_sha256": sha256,
                    "effect": effect,
                }
            )
        usage: JSONObject = {
            name: value for name, value in response.usage.to_json().items() if name != "cycles" and value
        }
        return AnswerRow(
            id=call.message,
            node=call.node,
            position=call.position,
            step=call.step,
            sha256=sha256_hex(body),
            body=body,
            usage=usage,
            stop=response.stop_reason,
            results_id=call.results,
            calls=calls,
        )

    async def _save_partial(
        self, agent: Agent, writer: Writer, call: GenerateInput, deltas: DeltaLog
    ) -> GenerateResult:
        """Keep what came of a cancelled answer: its text. Tool calls that never became whole are dropped."""
        text = deltas.text
        if not text.strip():
            await deltas.finish()
            return GenerateResult(kind="cancelled")
        message = partial_message(text)
        response = LLMResponse(message=message, usage=empty_usage(), stop_reason="cancelled")
        return await self._save(agent, writer, call, deltas, response)


def partial_message(text: str) -> AssistantMessage:
    """The message that stands for an answer that was cancelled while it came."""
    return AssistantMessage(text, metadata={"uap": {"aborted": True}})


def _argument_hashes(message: AssistantMessage) -> list[str]:
    return [sha256_hex(dumps(call.arguments)) for call in message.tool_calls or []]


def _opening_events(call: GenerateInput, message: AssistantMessage) -> list[JSONObject]:
    """The action, and the start of each of its tool calls."""
    if not message.tool_calls:
        return []
    now = int(message.timestamp.timestamp() * 1000)
    events = [uap_event("action", call.step, action_data(message))]
    for index, tool_call in enumerate(message.tool_calls):
        event = tool_execution_start(tool_call.tool_call_id, tool_call.tool_name, now, index)
        events.append(upp_event(event, step=call.step, attempt=activity.info().attempt, message=call.message))
    return events
