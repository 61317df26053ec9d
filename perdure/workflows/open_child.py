"""One agent's session that is open as a child, and how it is paused, resumed and cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure.activities.contracts import PAUSE, SessionInput
from perdure.uap.ids import derive_id
from perdure.uap.session_key import SessionKey
from perdure.workflows import calls


class OpenChild:
    """A sub-agent's session while its tool call is open, or that of an agent whose run is a task while it runs.

    Attributes:
        session: its id.
        starting: its execution was asked for, by us, and is not known to have begun.
    """

    def __init__(self, tenant: str, session: str) -> None:
        """Nothing of it is started yet."""
        self.session = session
        self.starting = False
        self._workflow_id = SessionKey(tenant, session).workflow_id
        self._handle: workflow.ChildWorkflowHandle[Any, Any] | None = None
        self._cancelled = False
        self._told: tuple[str, str] | None = None
        self._cancelling: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> bool:
        """Whether an execution of ours is open or about to be."""
        return self.starting or self._handle is not None

    async def until_ended(self, start: SessionInput, *, sandboxed: bool, task_queue: str | None = None) -> None:
        """Have the session open until its execution has ended, whichever way; at once if it is open already."""
        self.starting = True
        try:
            handle = await calls.start_session(start, sandboxed=sandboxed, task_queue=task_queue)
            await self.has_started(handle)
            await handle
        except FailureError:
            return  # what its run came to is in its rows
        finally:
            self.has_ended()

    def cancel(self) -> None:
        """Ask its execution to stop, once, whoever has started it; one of ours is waited for, another's is not."""
        if self._cancelled:
            return
        self._cancelled = True
        if self._handle is not None:
            self._handle.cancel()
        elif not self.starting:
            self._cancelling = asyncio.create_task(self._cancel_elsewhere())

    async def has_started(self, handle: workflow.ChildWorkflowHandle[Any, Any]) -> None:
        """Its execution is ours; it is told what came while it was starting."""
        self._handle = handle
        self.starting = False
        if self._cancelled:
            handle.cancel()
        elif self._told is not None and self._told[0] == PAUSE:
            await self.tell(*self._told)

    def has_ended(self) -> None:
        """No execution of ours is open any more."""
        self._handle = None
        self.starting = False

    async def tell(self, kind: str, control: str) -> None:
        """Pass a pause or resume on; the child handles one id once."""
        self._told = kind, control
        value = {"id": derive_id(control, kind, self.session)}
        try:
            await workflow.get_external_workflow_handle(self._workflow_id).signal(kind, value)
        except FailureError:
            return  # it is not open: it has ended, or is told once it has started

    async def _cancel_elsewhere(self) -> None:
        try:
            await workflow.get_external_workflow_handle(self._workflow_id).cancel()
        except FailureError:
            return  # it is not open; whoever takes its run up finds that its parent's has ended
