"""The sweep of stage sessions: those that nobody has woken are, and those whose time is over end."""

from __future__ import annotations

from temporalio.client import Client

from perdure.runtime.backoff import Backoff
from perdure.runtime.stage_signals import tell_answered, wake_stage
from perdure.runtime.temporal import is_running
from perdure.store.database import Database
from perdure.store.stages.expiry import mark_expired
from perdure.store.stages.neglected import NeglectedStage, find_neglected, find_silent
from perdure.uap.session_key import SessionKey

_SILENT_SECONDS = 15.0
_SILENT_EVERY = 5


class StageSweep:
    """One process's sweep. A session that stays neglected is woken less and less often, at least once a minute."""

    def __init__(self, client: Client, database: Database, *, silent_s: float = _SILENT_SECONDS) -> None:
        """Wake stage sessions found in `database` through `client`.

        Args:
            client: Temporal's.
            database: the store.
            silent_s: seconds after which an action of which nothing is heard may have lost its execution.
        """
        self._client = client
        self._database = database
        self._silent_s = silent_s
        self._backoff = Backoff[tuple[SessionKey, int]]()

    async def look(self) -> int:
        """One round; returns how many sessions were woken."""
        self._backoff.begin_round()
        neglected = await find_neglected(self._database)
        lost = await self._lost() if self._backoff.round % _SILENT_EVERY == 0 else []
        self._backoff.only({(one.key, one.ordinal) for one in [*neglected, *lost]})
        woken = 0
        for one in neglected:  # queued, or answered: having it look at its answers has it look at its inbox too
            if self._backoff.is_turn((one.key, one.ordinal)):
                await tell_answered(self._client, one.key, one.task_queue)
                woken += 1
        for one in lost:
            if self._backoff.is_turn((one.key, one.ordinal)):
                await wake_stage(self._client, one.key, one.task_queue)
                woken += 1
        return woken

    async def expire(self) -> int:
        """One round of ending sessions whose time is over; returns how many are ended."""
        return len(await mark_expired(self._database))

    async def _lost(self) -> list[NeglectedStage]:
        """Those that have a task or a wait, and no execution that has it in hand."""
        silent = await find_silent(self._database, seconds=self._silent_s)
        return [one for one in silent if not await is_running(self._client, one.key.stage_workflow_id)]
