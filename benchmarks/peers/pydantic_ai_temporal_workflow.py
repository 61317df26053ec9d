"""Pydantic AI's workflows, written as its documentation has them: the agent stands in the workflow's module."""

from __future__ import annotations

import asyncio

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.temporal import PydanticAIWorkflow, TemporalDurability
    from pydantic_ai.messages import ModelMessage

    from benchmarks.peers.pydantic_ai_script import UNLIMITED, look_up, scripted

agent = Agent(scripted(), name="bench", tools=[look_up], capabilities=[TemporalDurability()])


@workflow.defn(name="Run")
class Run(PydanticAIWorkflow):
    """A run of the agent."""

    __pydantic_ai_agents__ = (agent,)

    @workflow.run
    async def run(self, prompt: str) -> str:
        return (await agent.run(prompt, usage_limits=UNLIMITED)).output


@workflow.defn(name="Session")
class Session(PydanticAIWorkflow):
    """A session: keeps the message history and continues as new with it when Temporal suggests it."""

    __pydantic_ai_agents__ = (agent,)

    @workflow.init
    def __init__(self, history: list[ModelMessage] | None) -> None:
        self._history = history or []
        self._one_at_a_time = asyncio.Lock()
        self._closed = False

    @workflow.run
    async def run(self, history: list[ModelMessage] | None) -> None:
        await workflow.wait_condition(lambda: self._closed or workflow.info().is_continue_as_new_suggested())
        await workflow.wait_condition(workflow.all_handlers_finished)
        if not self._closed:
            workflow.continue_as_new(self._history)

    @workflow.update(name="turn")
    async def take_turn(self, prompt: str) -> str:
        async with self._one_at_a_time:
            result = await agent.run(prompt, message_history=self._history, usage_limits=UNLIMITED)
            self._history = result.all_messages()
            return result.output

    @workflow.signal(name="close")
    def close(self) -> None:
        self._closed = True
