"""`generate`: one model call. Its answer is stored before Temporal hears of it, and is never bought again once stored."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.agent_stages import AgentStages
from perdure.activities.ahead import is_called_ahead, with_marks, with_results
from perdure.activities.answer_row import (
    answer_row,
    argument_hashes,
    as_asked,
    ask_of,
    data_of,
    opening_events,
    starting_events,
)
from perdure.activities.ask import ask
from perdure.activities.call_tool import CallTool
from perdure.activities.contracts import GenerateInput, GenerateResult
from perdure.activities.conversation import read_conversation
from perdure.activities.deltas import DeltaLog
from perdure.activities.lifeline import STORE_PATIENCE, beating, cancelled_by_user, writer_of
from perdure.activities.redaction import clean_response
from perdure.activities.services import Services
from perdure.activities.won_answers import WonAnswers
from perdure.store.answers import Writer, is_begun, save_answer
from perdure.store.database import keep_trying
from perdure.store.messages import StoredMessage, read_message
from perdure.testing.crash import crash_point
from perdure.uap.agent import Agent
from perdure.uap.answer import accepted
from perdure.uap.cut import cut_answer
from perdure.uap.delegate import ids_told, is_told_ids
from perdure.uap.middleware import holds_deltas
from perdure.uap.request import build_request
from perdure.uap.shown_media import media_to_show, with_shown_media
from perdure.uap.stage_place import StagePlace
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.tools import Tool
from perdure.upp.usage import empty_usage


class Generate:
    """The model calls of one worker."""

    def __init__(self, services: Services, tools: CallTool) -> None:
        """Call the models of the agents in `services`, and short tools by `tools`."""
        self._services = services
        self._tools = tools
        self._won = WonAnswers()
        self._stages = AgentStages(services)

    @activity.defn(name=contracts.GENERATE)
    async def generate(self, call: GenerateInput) -> GenerateResult:
        """Buy one answer, stream it into the event log, store it, return it cut.

        Raises:
            UPPError: the model could not be used; retryable errors have been retried here.
            UnknownAgent: this worker does not serve the agent.
        """
        async with beating():
            crash_point("generate.begun")
            writer = writer_of(call.tenant, call.session, call.run)
            stage = await self._stages.place(writer, call)
            result = await self._generate(writer, call, stage)
            crash_point("generate.reporting")
            return result if stage is None else dataclasses.replace(result, stage=stage)

    async def _generate(self, writer: Writer, call: GenerateInput, stage: StagePlace | None) -> GenerateResult:
        attempt = activity.info().attempt
        again = call.adopted or attempt > 1 or await self._is_known(writer, call)
        if again:
            stored = await self._stored(writer, call)
            if stored is not None:
                return stored
            call = dataclasses.replace(call, ahead={})  # whoever had begun may be about to call them
        agent = self._services.app.agent(call.agent)
        held = holds_deltas(agent.middleware)
        deltas = DeltaLog(
            self._services,
            writer,
            call,
            attempt=attempt,
            again=again,
            held=held or (call.ask is not None and call.ask.quiet),
        )
        try:
            return await self._buy(agent, writer, call, deltas, stage)
        finally:
            deltas.stop()

    async def _buy(
        self, agent: Agent, writer: Writer, call: GenerateInput, deltas: DeltaLog, stage: StagePlace | None
    ) -> GenerateResult:
        try:
            shown = await self._stages.tools(writer, agent, stage)
            request = await keep_trying(lambda: self._request(agent, writer, call, shown), deadline=STORE_PATIENCE)
            crash_point("generate.buying")
            model = agent.bind()
            permits = self._services.permits(writer, model.provider, model.model_id)
            answer = await ask(model, request, deltas, permits)
            response = clean_response(accepted(answer, model, self._services.prices))
            crash_point("generate.bought")
        except asyncio.CancelledError:
            if not cancelled_by_user():
                raise
            return await self._save_partial(agent, writer, call, deltas)
        return await self._save(agent, writer, call, deltas, response, stage)

    async def _is_known(self, writer: Writer, call: GenerateInput) -> bool:
        """Whether another worker has begun this call as a local activity: of those nobody counts the attempts.

        Nobody has if the run's last answer was stored here a moment ago.
        """
        if not activity.info().is_local or self._won.takes_up(call):
            return False
        database = self._services.database
        return await keep_trying(lambda: is_begun(database, writer.key, call.message), deadline=STORE_PATIENCE)

    async def _stored(self, writer: Writer, call: GenerateInput) -> GenerateResult | None:
        database = self._services.database
        row = await keep_trying(lambda: read_message(database, writer.key, call.message), deadline=STORE_PATIENCE)
        if row is None:
            return None
        told = call.ask.prompt_id if call.ask is not None else ""
        prompt = await keep_trying(lambda: read_message(database, writer.key, told), deadline=STORE_PATIENCE)
        return self._result_of(row, call, prompt.sha256 if prompt else "")

    def _result_of(self, row: StoredMessage, call: GenerateInput, prompt: str) -> GenerateResult:
        message = row.message
        assert isinstance(message, AssistantMessage), "stored under an answer's id"
        self._services.remember(row.id, message)
        return GenerateResult(
            message=cut_answer(message).to_json(),
            sha256=row.sha256,
            usage=row.usage or {},
            stop=row.stop or "",
            args=argument_hashes(message),
            stored=True,
            prompt_sha256=prompt,
            data=data_of(message, call),
        )

    async def _request(self, agent: Agent, writer: Writer, call: GenerateInput, shown: Sequence[Tool]) -> LLMRequest:
        options = await self._services.options(writer)
        found, ask = await read_conversation(self._services, writer, call, options), ask_of(call)
        before, messages = found.before, found.rest
        if ask.stages or is_told_ids(agent):  # then more is looked at than what is settled
            before, messages = [], [*before, *messages]
        contents = self._services.contents(call.tenant)
        messages = await contents.resolved(ids_told(agent, messages))
        request = build_request(agent, options, messages, ask, shown, before)
        wanted = media_to_show(messages)
        if not wanted:
            return request
        media = await contents.there(wanted)
        seen = with_shown_media(request.messages, media, agent.bind().capabilities)
        return dataclasses.replace(request, messages=seen)

    async def _save(
        self,
        agent: Agent,
        writer: Writer,
        call: GenerateInput,
        deltas: DeltaLog,
        response: LLMResponse,
        stage: StagePlace | None = None,
    ) -> GenerateResult:
        message = as_asked(response.message, call)
        response = dataclasses.replace(response, message=message)
        left, pending = await deltas.finish()
        row = answer_row(agent, await self._services.options(writer), call, response, stage)
        ahead = is_called_ahead(call, message)
        row = with_marks(call, agent, message, row) if ahead else row
        events: list[JSONValue] = [*left, *opening_events(call, message)]
        if holds_deltas(agent.middleware):  # nobody sees it before it is checked
            row = dataclasses.replace(row, scaffold=True)
            events = [*starting_events(call, message)]
        crash_point("generate.storing")
        saved = await keep_trying(
            lambda: save_answer(self._services.database, writer, row, events, pending), deadline=STORE_PATIENCE
        )
        crash_point("generate.stored")
        self._services.announcer.changed(writer.key, calm=True)
        if saved.kind == "stored":
            return await self._stored(writer, call) or GenerateResult(kind="late")
        if saved.kind != "won":
            return GenerateResult(kind=saved.kind)
        self._services.remember(call.message, message)
        self._services.cache.add_answer(writer, row, call.epoch)
        self._won.add(call.run, row.position)
        result = GenerateResult(
            message=cut_answer(message).to_json(),
            sha256=row.sha256,
            usage=row.usage,
            stop=response.stop_reason,
            args=argument_hashes(message),
            prompt_sha256=str((row.prompt or {}).get("sha256", "")),
            data=data_of(message, call) if response.data is None else response.data,
        )
        if not ahead or saved.paused:
            return result
        return await with_results(self._tools, writer, call, row, result)

    async def _save_partial(
        self, agent: Agent, writer: Writer, call: GenerateInput, deltas: DeltaLog
    ) -> GenerateResult:
        """Keep what came of a cancelled answer: its text. Tool calls that never became whole are dropped."""
        deltas.cut_off()
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
