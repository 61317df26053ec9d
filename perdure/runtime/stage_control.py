"""What operators do to stage sessions: pause, resume, terminate, answer what waits, delete. Each may be asked for again."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass

from perdure.activities import contracts
from perdure.errors import ActionOpen, InvalidInput, ServerUnavailable, UnknownAction
from perdure.runtime.deletion import delete_executions, end_execution
from perdure.runtime.stage_servers import StageServers
from perdure.runtime.stage_signals import signal_stage, tell_answered
from perdure.store.stages import actions, sessions, waits
from perdure.store.stages.rows import ActionRow, StageSessionRow
from perdure.testing.crash import crash_point
from perdure.uaip.session import SessionStatus
from perdure.uap.ids import is_uuid4, new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

logger = logging.getLogger(__name__)

RECORDED = "recorded"
_CONTROLLED = ("stage.paused", "stage.resumed", "stage.terminated", "stage.expired")
_REACHED = {
    contracts.PAUSE: ("paused", SessionStatus.PAUSED),
    contracts.RESUME: ("resumed", SessionStatus.OPEN),
    contracts.TERMINATE: ("terminated", SessionStatus.TERMINATED),
}


@dataclass(frozen=True, slots=True)
class StageControlled:
    """What a pause, resume or terminate came to.

    Attributes:
        state: "paused", "resumed" or "terminated"; "terminated" or "expired" where the session had ended so before; or
            "recorded" (it will be done as soon as a worker runs).
        row: the session as it stands.
    """

    state: str
    row: StageSessionRow


class StageControl(StageServers):
    """How the stage sessions of one tenant are steered."""

    async def pause(self, session: str, *, wait_s: float = 5.0) -> StageControlled:
        """Pause a session: a task that runs ends, and the actions behind it wait.

        Args:
            session: which; it may be paused already.
            wait_s: seconds to wait for a worker; "recorded" after them.

        Raises:
            RequestRefused: there is none.
            ServerUnavailable: Temporal does not answer.
        """
        return await self._control(session, contracts.PAUSE, wait_s)

    async def resume(self, session: str, *, wait_s: float = 5.0) -> StageControlled:
        """Let a paused session take its actions; see `pause`."""
        return await self._control(session, contracts.RESUME, wait_s)

    async def terminate(self, session: str, *, reason: str = "", wait_s: float = 5.0) -> StageControlled:
        """End a session, paused or not, at once: a task that runs is cancelled, and all that is open is answered so.

        Args:
            session: which; it may have ended already.
            reason: for its record.
            wait_s: seconds to wait for a worker; "recorded" after them.

        Raises:
            RequestRefused: there is none.
            ServerUnavailable: Temporal does not answer.
        """
        return await self._control(session, contracts.TERMINATE, wait_s, reason)

    async def answer(self, session: str, action: str, answer: JSONObject, *, by: str, reason: str = "") -> ActionRow:
        """Answer an action that waits for a person, once; its session goes on.

        Args:
            session: whose.
            action: its id.
            answer: {"approved": true}, perhaps with all the "arguments" if they are to be other ones, or {"approved": false};
                of an outcome that nobody knows {"outcome": "done"}, with its "result" if there is one, or
                {"outcome": "not_done"}.
            by: who answers.
            reason: why; the client is told it of a denial.

        Raises:
            RequestRefused: there is no such session.
            UnknownAction: it has no such action.
            UnknownWait: the action waits for nobody.
            WaitAnswered: it has been answered.
            WaitStale: its time is over, or the session has ended.
            InvalidInput: an answer of another form.
        """
        if not by.strip():
            raise InvalidInput("by is empty; say who answers")
        row = await self.find(session)
        asked = await self._find_action(row.key, action)
        answered = await waits.answer_wait(self.database, row.key, asked.id, answer, by=by, reason=reason)
        crash_point("stage_answer.stored")
        self.announcer.changed(row.key)
        try:
            await tell_answered(self.client, row.key, row.task_queue)
        except ServerUnavailable as error:  # the row is answered; a worker's sweep tells the session
            logger.warning("stage_answer.wake_deferred action=%s %s", asked.id, error)
        return answered

    async def delete(self, session: str, *, force: bool = False) -> int:
        """Delete a session: its rows and Temporal's executions. Again it does nothing, and finishes what was cut off.

        Args:
            session: which.
            force: also while an action is open, which is cut off.

        Returns:
            How many sessions were deleted: 1, or 0 if there was none.

        Raises:
            ActionOpen: an action is open and `force` is not given; nothing was deleted.
            ServerUnavailable: a server does not answer; delete it again, what is left goes then.
        """
        key = self.key_of(session)
        row = await sessions.find_session(self.database, key)
        if row is not None:
            if row.open_actions and not row.session.has_ended and not force:
                raise ActionOpen(
                    f"stage session {session} has {row.open_actions} open actions; terminate it, or use force"
                )
            await end_execution(self.client, key.stage_workflow_id)
            crash_point("stage_delete.ended")
            await sessions.delete_session(self.database, key)
            self.announcer.changed(key)
            crash_point("stage_delete.emptied")
        await delete_executions(self.client, [key.stage_workflow_id])
        return 0 if row is None else 1

    async def _control(self, session: str, kind: str, wait_s: float, reason: str = "") -> StageControlled:
        row = await self.find(session)
        if row.session.has_ended:
            return StageControlled(row.session.status.value, row)
        state, wanted = _REACHED[kind]
        value: JSONObject = {"id": new_id(), "reason": reason}
        await signal_stage(self.client, row.key, row.task_queue, kind, value)
        if row.session.status is not wanted:
            try:
                async with asyncio.timeout(wait_s):
                    row = await self._until(row, wanted)
            except TimeoutError:
                return StageControlled(RECORDED, await self.find(session))
        return StageControlled(row.session.status.value if row.session.has_ended else state, row)

    async def _until(self, row: StageSessionRow, wanted: SessionStatus) -> StageSessionRow:
        """The session once it is so, or has ended."""
        async with aclosing(self.stream.follow(row.key, after=row.last_seq)) as events:
            async for event in events:
                if event.type in _CONTROLLED:
                    row = await self.find(row.key.session)
                    if row.session.status is wanted or row.session.has_ended:
                        break
        return row

    async def _find_action(self, key: SessionKey, action: str) -> ActionRow:
        lowered = action.lower()
        found = await actions.find_action(self.database, key, lowered) if is_uuid4(lowered) else None
        if found is None:
            raise UnknownAction(f"stage session {key.session} has no action {action[:40]!r}")
        return found
