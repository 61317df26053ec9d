"""What every part of `Stages` needs: the tenant's servers, and the way to a session."""

from __future__ import annotations

import logging

from perdure.errors import ServerUnavailable
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.stage_signals import wake_stage
from perdure.runtime.tenant_servers import TenantServers
from perdure.store.stages.definitions import ServedWorkflow, find_workflow, read_definition
from perdure.store.stages.rows import StageSessionRow, stage_key
from perdure.store.stages.sessions import find_session
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.refusal import session_not_found, workflow_not_found
from perdure.uap.session_key import SessionKey

logger = logging.getLogger(__name__)


class StageServers(TenantServers):
    """The servers of one tenant's stage sessions."""

    def key_of(self, session: str) -> SessionKey:
        """The key of a session that is there already.

        Raises:
            RequestRefused: no session can have that id: "Session not found".
        """
        key = stage_key(self.tenant, session)
        if key is None:
            raise RequestRefused(session_not_found())
        return key

    async def workflow(self, name: str) -> ServedWorkflow:
        """The workflow of that name, as it is served now.

        Raises:
            RequestRefused: none is: "Workflow not found".
        """
        found = await find_workflow(self.database, self.tenant, name)
        if found is None:
            raise RequestRefused(workflow_not_found(name))
        return found

    async def find(self, session: str, *, workflow: str | None = None) -> StageSessionRow:
        """A session as it stands now, also one that has ended.

        Args:
            session: its id.
            workflow: the workflow that it must be of.

        Raises:
            RequestRefused: there is no such workflow, or no such session of it.
        """
        key = stage_key(self.tenant, session)
        found = None if key is None else await find_session(self.database, key)
        if found is not None and workflow in (None, found.session.workflow):
            return found
        if workflow is not None:
            await self.workflow(workflow)
        raise RequestRefused(session_not_found())

    async def definition_of(self, row: StageSessionRow) -> WorkflowDefinition:
        """The definition that a session is pinned to."""
        return await read_definition(self.database, self.tenant, row.session.definition)

    async def wake(self, row: StageSessionRow) -> None:
        """Have a session look into its inbox; where Temporal is away a worker's sweep does it later."""
        try:
            await wake_stage(self.client, row.key, row.task_queue)
        except ServerUnavailable as error:  # the row is the acknowledgement
            logger.warning("action.wake_deferred session=%s %s", row.key.session, error)
