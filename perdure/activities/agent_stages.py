"""The stage sessions of agents that walk a workflow, in activities: what is asked of the model, and what is called."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.activities.contracts import CallToolInput, GenerateInput
from perdure.activities.conversation import submitted_before
from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.services import Place, Services
from perdure.activities.stage_bodies import StoredBodies
from perdure.activities.stage_http import run_http
from perdure.errors import SessionGone
from perdure.store.answers import Writer
from perdure.store.database import keep_trying
from perdure.uaip.bound_task import HttpTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.state import State
from perdure.uaip.task_context import TaskContext
from perdure.uaip.task_outcome import TaskRun
from perdure.uap.agent import Agent
from perdure.uap.request import own_names
from perdure.uap.session_key import SessionKey
from perdure.uap.stage_call import StageCall, call_stage
from perdure.uap.stage_place import StagePlace, qualified
from perdure.uap.stage_walk import StageWalk
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message
from perdure.upp.tools import Tool


class AgentStages:
    """The stage sessions of the agents of one worker."""

    def __init__(self, services: Services) -> None:
        """Find them in the store of `services`."""
        self._services = services

    async def place(self, writer: Writer, call: GenerateInput) -> StagePlace | None:
        """Where the session is before a model call; None if its agent walks no workflow.

        The thread says so, up to this call: a call that is made again finds the same.
        """
        if call.ask is None or not call.ask.stages:
            return None
        services, agent = self._services, self._services.app.agent(call.agent)
        options = await keep_trying(lambda: services.options(writer), deadline=STORE_PATIENCE)

        async def before() -> Sequence[Message]:
            place = Place(call.node, call.start, call.epoch)
            return await keep_trying(
                lambda: submitted_before(services, writer, place, options), deadline=STORE_PATIENCE
            )

        stored = await keep_trying(
            lambda: services.cache.read(writer.key, call.node, first=call.start, end=call.position, epoch=call.epoch),
            deadline=STORE_PATIENCE,
        )
        own = [item.message for item in stored]
        return await self._walk(agent, writer).open(call.ask.stages, own, before, own_names(agent, options))

    async def tools(self, writer: Writer, agent: Agent, place: StagePlace | None) -> Sequence[Tool]:
        """What the model is shown of the stage."""
        return () if place is None else await self._walk(agent, writer).tools(place)

    async def call(self, writer: Writer, call: CallToolInput, name: str) -> StageCall | None:
        """A call of a stage's tool; None of a call of the agent's own."""
        if call.stage is None:
            return None
        agent = self._services.app.agent(call.agent)
        return await call_stage(self._walk(agent, writer), call.stage, name, call.session)

    def _walk(self, agent: Agent, writer: Writer) -> StageWalk:
        stages = None if agent.staged is None else agent.staged.stages
        return StageWalk(stages, StoredBodies(self._services, writer.key, writer.run), _run_http)


async def keep_definition(services: Services, key: SessionKey, agent: Agent) -> None:
    """Keep the definition that a run which begins now freezes by its hash."""
    if agent.staged is None:
        return
    try:
        await StoredBodies(services, key, "").write([agent.staged.stages.definition.canonical])
    except SessionGone:
        return  # no run begins in it


def called_name(call: CallToolInput, name: str) -> str:
    """What a run's spec calls the tool of a call."""
    return name if call.stage is None else qualified(call.stage.stage, name)


async def _run_http(
    task: HttpTask, pinned: TaskSpec, arguments: JSONObject, state: State, context: TaskContext
) -> TaskRun:
    return await run_http(task, pinned, arguments, state, context, secrets=context.secrets)
