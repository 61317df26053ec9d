"""`control_stage`: pauses, resumes or terminates a stage session, once for each control. A local activity."""

from __future__ import annotations

from typing import cast

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.contracts import ControlStageInput, ControlStageResult
from perdure.activities.services import Services
from perdure.activities.stage_standing import standing_of
from perdure.store.stages.control import ControlKind, control_session
from perdure.testing.crash import crash_point
from perdure.uap.session_key import SessionKey


class ControlStage:
    """The controls that one worker applies."""

    def __init__(self, services: Services) -> None:
        """Write to the store of `services`."""
        self._services = services

    @activity.defn(name=contracts.CONTROL_STAGE)
    async def control_stage(self, call: ControlStageInput) -> ControlStageResult:
        """Apply it in one transaction. One that changes nothing, or whose session is gone, is no error."""
        key, control = SessionKey(call.tenant, call.session), call.control
        kind = cast(ControlKind, control.kind)  # the workflow notes no other
        crash_point("control_stage.storing")
        controlled = await control_session(
            self._services.database, key, kind, control=control.id, reason=control.reason
        )
        crash_point("control_stage.stored")
        if controlled.news:
            self._services.announcer.changed(key)
        return ControlStageResult(standing_of(controlled.session))
