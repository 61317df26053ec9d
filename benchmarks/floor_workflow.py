"""The floor: the least that a hand-written agent on Temporal does. One activity per model call and per tool call.

By reference, a model call is sent the last step's messages only, as if the rest lay elsewhere; with `full_messages` it
is sent the whole conversation, as hand-written agents are first written.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel, Field

    from benchmarks.work import read_prompt

_WITHIN = timedelta(seconds=10)
"""No longer than Temporal gives a workflow task, so that a measurement can wait until the last timer has ended."""


class Call(BaseModel):
    """A tool call that a model asks for."""

    id: str
    name: str
    arguments: dict[str, Any]


class Message(BaseModel):
    """One message: of role "user", "assistant" or "tool"."""

    role: str
    text: str
    calls: list[Call] = Field(default_factory=list[Call])
    call_id: str | None = None


class ModelInput(BaseModel):
    """What the activity `generate` takes.

    Attributes:
        work: and `turn`, what is asked for.
        given: answers since the turn's prompt.
        step: of the session, counted from 1.
        messages: that the model is sent, oldest first.
    """

    work: str
    turn: int
    given: int
    step: int
    messages: list[Message]


class ToolInput(BaseModel):
    """What the activity `call_tool` takes."""

    step: int
    index: int
    call: Call


class Conversation(BaseModel):
    """The state of a session between turns: its steps so far, and its messages if they are all sent."""

    full_messages: bool
    step: int = 0
    messages: list[Message] = Field(default_factory=list[Message])

    async def take_turn(self, prompt: str) -> str:
        """Answer a prompt."""
        work, turn = read_prompt(prompt)
        given = 0
        self._add([Message(role="user", text=prompt)])
        while True:
            self.step += 1
            asked = ModelInput(work=work, turn=turn, given=given, step=self.step, messages=self.messages)
            answer = await workflow.execute_activity(
                "generate", asked, result_type=Message, start_to_close_timeout=_WITHIN
            )
            if not answer.calls:
                self._add([answer])
                return answer.text
            self._add([answer, *await self._call_tools(answer.calls)])
            given += 1

    async def _call_tools(self, calls: list[Call]) -> list[Message]:
        return await asyncio.gather(*(self._call_tool(index, call) for index, call in enumerate(calls)))

    async def _call_tool(self, index: int, call: Call) -> Message:
        asked = ToolInput(step=self.step, index=index, call=call)
        return await workflow.execute_activity("call_tool", asked, result_type=Message, start_to_close_timeout=_WITHIN)

    def _add(self, messages: list[Message]) -> None:
        self.messages = [*self.messages, *messages] if self.full_messages else messages


@workflow.defn(name="Run")
class Run:
    """A session of one turn."""

    @workflow.run
    async def run(self, prompt: str, full_messages: bool) -> str:
        return await Conversation(full_messages=full_messages).take_turn(prompt)


@workflow.defn(name="Session")
class Session:
    """A session: takes its prompts by update, one after another, and continues as new when Temporal suggests it."""

    @workflow.init
    def __init__(self, full_messages: bool, conversation: Conversation | None) -> None:
        self._conversation = conversation or Conversation(full_messages=full_messages)
        self._one_at_a_time = asyncio.Lock()
        self._closed = False

    @workflow.run
    async def run(self, full_messages: bool, conversation: Conversation | None) -> None:
        await workflow.wait_condition(lambda: self._closed or workflow.info().is_continue_as_new_suggested())
        await workflow.wait_condition(workflow.all_handlers_finished)
        if not self._closed:
            workflow.continue_as_new(args=[full_messages, self._conversation])

    @workflow.update(name="turn")
    async def take_turn(self, prompt: str) -> str:
        async with self._one_at_a_time:
            return await self._conversation.take_turn(prompt)

    @workflow.signal(name="close")
    def close(self) -> None:
        self._closed = True
