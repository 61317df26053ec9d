"""A stage session as its workflow may hold it."""

from __future__ import annotations

from perdure.activities.contracts import StageStanding
from perdure.uaip.session import StageSession


def standing_of(session: StageSession | None) -> StageStanding | None:
    """Where a session stands, without its keys: history must not grow with the state."""
    if session is None:
        return None
    return StageStanding(
        workflow=session.workflow,
        definition=session.definition,
        stage=session.stage,
        status=session.status.value,
        version=session.version,
        taken=session.taken,
    )
