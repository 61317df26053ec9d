"""The stage session of an inside agent: where it is, what it offers, and what a call does to it. The same in both hosts.

Nothing of it is remembered but what the thread names and the host keeps, so every call can be repeated: it finds the
snapshot that it was made on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias

from perdure.uaip.bound_task import BoundTask, HttpTask
from perdure.uaip.definition import StageSpec, TaskSpec, WorkflowDefinition
from perdure.uaip.offers import offers, provide_state
from perdure.uaip.state import State
from perdure.uaip.task_context import TaskContext
from perdure.uaip.task_outcome import TaskRun
from perdure.uap.agent_execution import StageTools
from perdure.uap.stage_place import StagePlace, last_place
from perdure.uap.stage_snapshot import Snapshot, StageBodies, first_snapshot, read_snapshot, values_body
from perdure.uap.stage_tools import offered_tool
from perdure.upp.json_value import JSONObject, loads
from perdure.upp.messages import Message
from perdure.upp.redaction import known_secrets
from perdure.upp.tools import Tool

Thread: TypeAlias = Callable[[], Awaitable[Sequence[Message]]]


class HttpTasks(Protocol):
    """How a host carries out tasks that are HTTP calls."""

    async def __call__(
        self, task: HttpTask, pinned: TaskSpec, arguments: JSONObject, state: State, context: TaskContext
    ) -> TaskRun:
        """What came of one call. Raises CancelledError alone."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """A session where it stands, read.

    Attributes:
        snapshot: all of it but the values.
        definition: the run's.
    """

    snapshot: Snapshot
    definition: WorkflowDefinition

    @property
    def stage(self) -> StageSpec | None:
        """Where it is; None once it has ended."""
        session = self.snapshot.session
        return None if session.has_ended else self.definition.stage(session.stage)

    def task(self, name: str) -> TaskSpec | None:
        """The task that can be called by that name here."""
        return None if self.stage is None else self.stage.task(name)


class StageWalk:
    """What one agent does with its stage sessions."""

    def __init__(self, stages: StageTools | None, bodies: StageBodies, http: HttpTasks) -> None:
        """Walk a workflow.

        Args:
            stages: as deployed now; None if the agent walks none any more, though the run that is open does.
            bodies: where the host keeps it.
            http: carries out HTTP calls.
        """
        self._stages = stages
        self._bodies = bodies
        self.http = http

    async def open(self, definition: str, own: Sequence[Message], before: Thread, others: Container[str]) -> StagePlace:
        """Where the session of a run is: as the run left it so far, else as the thread before has it, else at its beginning.

        Args:
            definition: sha256 of the run's.
            own: messages of the run so far, oldest first.
            before: gives those before it.
            others: names of the agent's own tools.
        """
        place = last_place(own, others)
        if place is not None:
            return place
        found = last_place(await before(), others)
        deployed = await self.definition(definition)
        snapshot = None if found is None else read_snapshot(await self._bodies.read(found.state))
        went_on = None if snapshot is None else snapshot.under(deployed)
        if went_on is not None and went_on is snapshot:
            return went_on.place
        if went_on is not None:
            return await self.keep(went_on)
        return await self.keep(first_snapshot(deployed), values_body({}))

    async def standing(self, place: StagePlace) -> Standing:
        """A session where it stands."""
        snapshot = read_snapshot(await self._bodies.read(place.state))
        return Standing(snapshot, await self.definition(snapshot.session.definition))

    async def tools(self, place: StagePlace) -> list[Tool]:
        """What the model is shown: the tasks of the stage, and the session's own tools; nothing once it has ended."""
        standing = await self.standing(place)
        snapshot, definition = standing.snapshot, standing.definition
        missing = snapshot.missing(definition)
        shown = [*offers(definition, snapshot.session), *([provide_state(missing)] if missing else [])]
        return [offered_tool(offer) for offer in shown]

    async def definition(self, sha256: str) -> WorkflowDefinition:
        """A definition by its hash."""
        if self._stages is not None and self._stages.sha256 == sha256:
            return self._stages.definition
        return _read_definition(await self._bodies.read(sha256))

    def bound(self, stage: str, name: str) -> BoundTask | None:
        """What carries a task out on this deployment; None if nothing does any more."""
        return None if self._stages is None else self._stages.task(stage, name)

    async def values(self, snapshot: Snapshot) -> JSONObject:
        """The values of the state."""
        values = loads(await self._bodies.read(snapshot.values))
        assert isinstance(values, dict), "the hash is of an object"
        return values

    async def keep(self, snapshot: Snapshot, *more: bytes) -> StagePlace:
        """Keep a snapshot, and what it names that is new; returns where the session is by it."""
        await self._bodies.write([*more, snapshot.body])
        return snapshot.place


def clean_values(values: JSONObject) -> bytes:
    """Values as they are kept: without secrets that this process knows."""
    return values_body(known_secrets.json(values))


@lru_cache(64)
def _read_definition(body: bytes) -> WorkflowDefinition:
    return WorkflowDefinition.from_json(loads(body))
