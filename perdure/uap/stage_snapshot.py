"""A stage session of an inside agent at one moment, as it is kept: small, and its values beside it, each under its sha256.

What is kept never changes, so nothing that points at it (a message of the thread) can point at something else later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.json_form import from_json, to_json
from perdure.uaip.machine import missing_keys
from perdure.uaip.session import StageSession, begin
from perdure.uap.stage_place import StagePlace
from perdure.upp.json_value import JSONObject, dumps, loads, sha256_hex

NO_TIME = 0
"""The time of all that is done in an inside agent's session: it lives as long as its thread, and never expires."""


class StageBodies(Protocol):
    """Where a host keeps snapshots, values and definitions."""

    async def read(self, sha256: str) -> bytes:
        """A body. Raises PerdureError if it is not there."""
        ...

    async def write(self, bodies: Sequence[bytes]) -> None:
        """Keep bodies; those that are there stay. It returns when they are kept."""
        ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stage session at one moment.

    Attributes:
        session: without an id: the same session in another thread is the same snapshot.
        values: sha256 of the JSON of the state's values.
        wanted: the stage that could not be entered, since keys of the state were missing; "" if none.
    """

    session: StageSession
    values: str
    wanted: str = ""

    @property
    def body(self) -> bytes:
        """As it is kept."""
        return dumps(to_json(self))

    @property
    def place(self) -> StagePlace:
        """As the thread names it."""
        return StagePlace("" if self.session.has_ended else self.session.stage, sha256_hex(self.body))

    def with_values(self, body: bytes) -> Snapshot:
        """The same session with other values, as they are kept."""
        return replace(self, values=sha256_hex(body))

    def missing(self, definition: WorkflowDefinition) -> list[str]:
        """The keys that are still missing in the stage that could not be entered, of those that clients may write."""
        target = definition.stage(self.wanted)
        keys = [] if target is None else missing_keys(target, self.session.sizes)
        return [key for key in keys if definition.inputs is None or key in definition.inputs]

    def under(self, definition: WorkflowDefinition) -> Snapshot | None:
        """The same session, gone on with by another definition of its workflow; None if it cannot be.

        A stage that is no more is left for the initial one; the values stay.
        """
        session = self.session
        if session.has_ended or session.workflow != definition.name:
            return None
        if session.definition == definition.sha256:
            return self
        stage = session.stage if definition.stage(session.stage) is not None else definition.initial_stage
        return Snapshot(replace(session, definition=definition.sha256, stage=stage), self.values)


def first_snapshot(definition: WorkflowDefinition) -> Snapshot:
    """A session that begins."""
    return Snapshot(begin(definition, "", NO_TIME), sha256_hex(values_body({})))


def read_snapshot(body: bytes) -> Snapshot:
    """The snapshot that was kept. Raises InvalidInput if it is none."""
    return from_json(Snapshot, loads(body), "stage snapshot")


def values_body(values: JSONObject) -> bytes:
    """Values as they are kept."""
    return dumps(values)
