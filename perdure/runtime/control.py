"""What operators do to sessions: pause, resume, cancel, patch, delete. Each may be asked for again, in any state."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from perdure.activities import contracts
from perdure.activities.redaction import clean_metadata
from perdure.errors import UnknownSession
from perdure.runtime.deletion import delete_executions, end_execution
from perdure.runtime.session_servers import SessionServers, address_of
from perdure.runtime.temporal import signal_session
from perdure.store import withdrawing
from perdure.store.deleting import delete_content, forget, mark_deleting
from perdure.store.events import Event
from perdure.store.runs import TERMINAL, find_run
from perdure.store.session_patch import Patch, patch_session
from perdure.store.sessions import SessionRow, find_address, read_session
from perdure.testing.crash import crash_point
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.redaction import known_secrets


class Unchanged(Enum):
    """What stands for a value that is not given, where None is one."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Controlled:
    """What a pause, resume or cancel came to.

    Attributes:
        state: "paused", "resumed", "cancelled", "ignored" (it meant a run that is not active), "idle" (there was nothing
            to cancel), "completed" or "failed" (the run had ended so), or "recorded" (it will be done as soon as a
            worker runs).
        event: the event that says so; None where no worker had to do anything, and if `recorded`.
        run: the run that it was about, if there was one.
        in_flight: what was still going on when a pause took effect, and ends by itself: {"kind": "model" or "tool",
            "step", and of a tool "index", its place in the answer}. Nothing else begins.
        withdrawn: runs of queued inputs that a cancel took back, in order.
    """

    state: str
    event: Event | None = None
    run: str | None = None
    in_flight: Sequence[JSONObject] = ()
    withdrawn: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a delete has removed.

    Attributes:
        sessions: how many, sub-agents' included; 0 if there was none of that id.
        executions: of Temporal, over all of them.
    """

    sessions: int
    executions: int


class SessionControl(SessionServers):
    """How the sessions of one tenant are steered."""

    async def pause(self, session: str, *, wait_s: float = 5.0) -> Controlled:
        """Pause a session: its run holds before the next model or tool call, and no input is taken.

        Args:
            session: which; it may be paused already, or idle.
            wait_s: seconds to wait for a worker; "recorded" after them.

        Raises:
            UnknownSession: there is none.
            ServerUnavailable: Temporal does not answer.
        """
        return await self._control(session, contracts.PAUSE, None, wait_s)

    async def resume(self, session: str, *, wait_s: float = 5.0) -> Controlled:
        """Let a paused session go on and take its queue; see `pause`."""
        return await self._control(session, contracts.RESUME, None, wait_s)

    async def cancel(self, session: str, *, run: str | None = None, wait_s: float = 5.0) -> Controlled:
        """Cancel a run: the given one, else the active one. One that is still queued is withdrawn at once.

        A run that has ended stays what it is, and the answer says what that is; "idle" if none is given or active. The id
        of an input that joined a run means that run.

        Raises:
            UnknownSession: there is none.
            UnknownRun: the session has no such run.
            ServerUnavailable: Temporal does not answer.
        """
        key = self.key_of(session)
        target = run or (await read_session(self.database, key)).active_run
        if target is None:
            return Controlled("idle")
        row = await find_run(self.database, self.tenant, target)
        if row.key != key:
            raise UnknownSession(f"run {target} is not one of session {session} but of session {row.key.session}")
        if row.status in TERMINAL:
            return Controlled(row.status, run=row.id)
        if row.status == "queued" and await withdrawing.withdraw(self.database, key, target):
            self.announcer.changed(key)
            return Controlled("cancelled", run=target, withdrawn=[target])
        return await self._control(session, contracts.CANCEL, row.id, wait_s)

    async def cancel_session(self, session: str, *, wait_s: float = 5.0) -> Controlled:
        """Cancel the active run and withdraw the whole queue, in one moment: nothing of it begins in between.

        Returns:
            "cancelled", or "idle" if there was neither; `withdrawn` is what was queued.

        Raises:
            UnknownSession: there is none.
            ServerUnavailable: Temporal does not answer; the queue is withdrawn.
        """
        key = self.key_of(session)
        withdrawn, active = await withdrawing.withdraw_all(self.database, key)
        self.announcer.changed(key)
        if active is None:
            return Controlled("cancelled" if withdrawn else "idle", withdrawn=withdrawn)
        reached = await self._control(session, contracts.CANCEL, active, wait_s)
        return Controlled(reached.state, reached.event, active, withdrawn=withdrawn)

    async def patch(
        self,
        session: str,
        *,
        title: str | Unchanged | None = UNCHANGED,
        metadata: Mapping[str, JSONValue] | None = None,
        removed: Collection[str] = (),
        limits: SessionLimits | Unchanged | None = UNCHANGED,
    ) -> SessionRow:
        """Change a session's title, metadata and limits, also while a run is active, and return the session.

        Args:
            session: which.
            title: for lists; None takes it away.
            metadata: keys to set; the others stay.
            removed: keys to remove.
            limits: what its runs may use together, from the next one on; None takes them away.

        Raises:
            UnknownSession: there is none.
            SessionGone: it is being deleted.
        """
        retitled = not isinstance(title, Unchanged)
        retitle = None if isinstance(title, Unchanged) else known_secrets.json(title)
        limited = not isinstance(limits, Unchanged)
        limit = None if isinstance(limits, Unchanged) else limits
        patch = Patch(retitled, retitle, clean_metadata(metadata), removed, limited, limit)
        return await patch_session(self.database, self.key_of(session), patch)

    async def delete(self, session: str, *, force: bool = False) -> Deleted:
        """Delete a session and its sub-agents': rows, payloads and Temporal's executions.

        Again it does nothing, and finishes what was cut off. A wake that comes later creates nothing.

        Args:
            session: which.
            force: also while a run is open, which is cut off.

        Raises:
            RunActive: a run is open and `force` is not given; nothing was deleted.
            InvalidInput: it is a sub-agent's session whose parent is there; delete that one.
            ServerUnavailable: a server does not answer; delete it again, what is left goes then.
        """
        key = self.key_of(session)
        keys = await mark_deleting(self.database, key, force=force)
        crash_point("delete.marked")
        for one in keys:
            self.announcer.changed(one)
            await end_execution(self.client, one.workflow_id)
        crash_point("delete.ended")
        await delete_content(self.database, keys)
        crash_point("delete.emptied")
        executions = await delete_executions(self.client, [one.workflow_id for one in keys or [key]])
        crash_point("delete.forgetting")
        await forget(self.database, keys)
        return Deleted(len(keys), executions)

    async def _control(self, session: str, kind: str, run: str | None, wait_s: float) -> Controlled:
        key = self.key_of(session)
        row = await read_session(self.database, key)
        control = new_id()
        await self.send_control(key, kind, control, run)
        try:
            async with asyncio.timeout(wait_s):
                async for event in self.stream.follow(key, after=row.last_seq):
                    state = _reached(event, control)
                    if state is not None:
                        return Controlled(state, event, run or row.active_run, _in_flight(event))
        except TimeoutError:
            pass
        return Controlled("recorded", run=run or row.active_run)

    async def send_control(self, key: SessionKey, kind: str, control: str, run: str | None = None) -> None:
        """Signal a pause, resume or cancel.

        Args:
            key: the session.
            kind: which.
            control: its id; a session heeds one only once.
            run: the run that it means.

        Raises:
            ServerUnavailable: Temporal does not answer.
        """
        value: JSONObject = {"id": control} if run is None else {"id": control, "run": run}
        await signal_session(self.client, address_of(key, await find_address(self.database, key)), kind, value)


def _in_flight(event: Event) -> Sequence[JSONObject]:
    listed = event.data.get("calls")
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _reached(event: Event, control: str) -> str | None:
    """The state that an event says this control has reached."""
    if event.data.get("control") == control:
        return {"session.paused": "paused", "session.resumed": "resumed"}.get(event.type, "ignored")
    controls = event.data.get("controls")
    if isinstance(controls, list) and control in controls:
        return event.type.removeprefix("run.")
    return None
