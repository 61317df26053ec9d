"""The stage sessions of runs in this process: what they are kept in, and how their calls are carried out."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import InvalidInput
from perdure.uaip.bound_task import HttpTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.state import State
from perdure.uaip.task_context import TaskContext
from perdure.uaip.task_outcome import TaskRun
from perdure.uap.agent import Agent
from perdure.uap.options import RunOptions
from perdure.uap.recent_bodies import RecentBodies
from perdure.uap.request import own_names
from perdure.uap.stage_call import call_stage
from perdure.uap.stage_order import StageOrder
from perdure.uap.stage_place import StagePlace, place_of
from perdure.uap.stage_walk import StageWalk
from perdure.upp.json_value import JSONObject, sha256_hex
from perdure.upp.messages import Message
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tools import Tool, ToolContext

MOST_BYTES = 256_000_000
"""So much of all sessions of this process is kept; the parts that were not used for the longest time go first."""


class MemoryBodies:
    """`StageBodies` of a process."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._bodies = RecentBodies(most_bytes)

    async def read(self, sha256: str) -> bytes:
        """See `StageBodies.read`. Raises InvalidInput."""
        body = self._bodies.get(sha256)
        if body is None:
            raise InvalidInput(
                f"this process does not have the stage session's state {sha256[:12]}…: another process made it, or too much "
                "has been kept since; run the agent inside `async with connect():` to have it kept"
            )
        return body

    async def write(self, bodies: Sequence[bytes]) -> None:
        """See `StageBodies.write`."""
        for body in bodies:
            self._bodies.put(sha256_hex(body), body)


_kept = MemoryBodies()


async def _run_http(
    task: HttpTask, pinned: TaskSpec, arguments: JSONObject, state: State, context: TaskContext
) -> TaskRun:
    from perdure.activities.stage_http import run_http  # slow to import, not always needed

    return await run_http(task, pinned, arguments, state, context, secrets=context.secrets)


class MemoryStages:
    """The stage session of one run."""

    def __init__(self, agent: Agent, options: RunOptions, before: Sequence[Message], session: str) -> None:
        """Go on where the messages before the run say.

        Args:
            agent: who walks the workflow.
            options: of the run.
            before: the thread.
            session: what a task's context says.
        """
        stages = None if agent.staged is None else agent.staged.stages
        self._walk = StageWalk(stages, _kept, _run_http)
        self._agent = agent
        self._others = own_names(agent, options)
        self._before = before
        self._session = session
        self._place: StagePlace | None = None

    async def tools(self, definition: str, own: Sequence[Message]) -> list[Tool]:
        """What the model is shown next; from now on the session is where these messages of the run say."""

        async def before() -> Sequence[Message]:
            return self._before

        self._place = await self._walk.open(definition, own, before, self._others)
        return await self._walk.tools(self._place)

    def order(self, calls: Sequence[ToolCall]) -> StageOrder:
        """The calls of the answer that was given to these tools."""
        return StageOrder(self._place, calls, self._others)

    async def call(self, order: StageOrder, place: StagePlace, call: ToolCall, context: ToolContext) -> ToolExecution:
        """Carry out a call whose turn it is."""
        made = await call_stage(self._walk, place, call.tool_name, self._session)
        execution = await made.finish(await execute_tool(made.tool, call, context, self._agent.tool_strategy))
        order.left(place_of(execution.result))
        return execution
