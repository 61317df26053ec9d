"""The OpenAI Agents SDK's workflows; the agent is made in the workflow, as the plugin's documentation has it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from agents import Agent, RunConfig, Runner, RunResult, TResponseInputItem
    from temporalio.openai_agents.workflow import activity_as_tool

    from benchmarks.peers.openai_agents_script import look_up

_WITHIN = timedelta(seconds=60)
_MOST_TURNS = 1000  # the default of 10 model calls is too few for the works


async def run_agent(given: str | list[TResponseInputItem]) -> RunResult:
    """Run the agent on a prompt, or on a conversation that ends in one."""
    agent = Agent(name="bench", tools=[activity_as_tool(look_up, start_to_close_timeout=_WITHIN)])
    return await Runner.run(agent, given, max_turns=_MOST_TURNS, run_config=RunConfig(tracing_disabled=True))


@workflow.defn(name="Run")
class Run:
    """A run of the agent."""

    @workflow.run
    async def run(self, prompt: str) -> str:
        return (await run_agent(prompt)).final_output


@workflow.defn(name="Session")
class Session:
    """A session: keeps the conversation and continues as new with it when Temporal suggests it."""

    @workflow.init
    def __init__(self, history: list[TResponseInputItem] | None) -> None:
        self._history = history or []
        self._one_at_a_time = asyncio.Lock()
        self._closed = False

    @workflow.run
    async def run(self, history: list[TResponseInputItem] | None) -> None:
        await workflow.wait_condition(lambda: self._closed or workflow.info().is_continue_as_new_suggested())
        await workflow.wait_condition(workflow.all_handlers_finished)
        if not self._closed:
            workflow.continue_as_new(self._history)

    @workflow.update(name="turn")
    async def take_turn(self, prompt: str) -> str:
        async with self._one_at_a_time:
            result = await run_agent([*self._history, {"role": "user", "content": prompt}])
            self._history = result.to_input_list()
            return result.final_output

    @workflow.signal(name="close")
    def close(self) -> None:
        self._closed = True
