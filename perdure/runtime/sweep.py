"""The sweep: every process that can reach both servers looks for sessions that nobody has woken, and wakes them.

So a client may die between its commit and its signal, Temporal may be away at a submit, and an execution may be
terminated by hand: the inbox is served all the same. Workers fold the deltas of runs that ended a while ago, too. Media whose time is over is deleted.
Labels of sessions are written where a key of metadata has become one that lists are filtered by.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn

from temporalio.client import Client

from perdure.activities import contracts
from perdure.runtime.backoff import Backoff
from perdure.runtime.rounds import repeat, seldom
from perdure.runtime.stage_sweep import StageSweep
from perdure.runtime.temporal import SessionAddress, is_open, signal_session, tell_target, wake
from perdure.store.content.contents import delete_expired
from perdure.store.database import Database
from perdure.store.folding import find_unfolded, fold_run
from perdure.store.label_filling import keep_labels
from perdure.store.policies import queued_action
from perdure.store.sweep import Neglected, find_answered, find_due, find_silent, find_untold

PERIOD = timedelta(seconds=2)
SILENT_SECONDS = 15.0
_SILENT_EVERY = 5


class Sweep:
    """One process's sweep. A session that stays neglected is woken less and less often, at least once a minute."""

    def __init__(self, client: Client, database: Database, *, fold_after: timedelta | None = None) -> None:
        """Wake sessions found in `database` through `client`.

        Args:
            client: Temporal's.
            database: the store.
            fold_after: how long after a run's end its deltas are folded; None folds none.
        """
        self._client = client
        self._database = database
        self._fold_after = fold_after
        self._backoff = Backoff[tuple[str, str, str | None]]()
        self._stages = StageSweep(client, database)

    async def run(self) -> NoReturn:
        """Look each `PERIOD` until cancelled; a server that is away only makes a round do nothing."""
        expire = seldom(self.expire)
        await repeat((self.look, self._stages.look, self._stages.expire, self.fold, expire, self.label), PERIOD)

    async def look(self) -> int:
        """One round; returns how many sessions were woken."""
        self._backoff.begin_round()
        due, answered = await find_due(self._database), await find_answered(self._database)
        due += await find_untold(self._database)
        silent = await self._lost() if self._backoff.round % _SILENT_EVERY == 0 else []
        woken = 0
        self._backoff.only({_name(item) for item in [*due, *answered, *silent]})
        for item in [*due, *answered, *silent]:
            if self._backoff.is_turn(_name(item)):
                await self._wake(item)
                woken += 1
        return woken

    async def fold(self) -> int:
        """One round of folding; returns how many runs are folded. What another process has in hand is left to it."""
        if self._fold_after is None:
            return 0
        ended = await find_unfolded(self._database, after=self._fold_after)
        return sum([await fold_run(self._database, run) for run in ended])

    async def expire(self) -> int:
        """One round of deleting stored media whose time is over; returns how many are gone."""
        return await delete_expired(self._database)

    async def label(self) -> int:
        """One round of labels that nobody has written; returns how many sessions were gone through. Mostly none."""
        return await keep_labels(self._database)

    async def _lost(self) -> list[Neglected]:
        silent = await find_silent(self._database, seconds=SILENT_SECONDS)
        return [item for item in silent if not await is_open(self._client, item.key)]

    async def _wake(self, item: Neglected) -> None:
        address = SessionAddress(item.key, item.agent, item.workflow_type, item.task_queue)
        if item.run is not None and item.target is not None:
            action = queued_action(item.policy, item.target)
            await tell_target(self._client, address, action, item.run, item.target)
        elif item.wait is None:
            await wake(self._client, address)
        else:
            await signal_session(self._client, address, contracts.ANSWER, {"wait": item.wait})


def _name(item: Neglected) -> tuple[str, str, str | None]:
    return item.key.tenant, item.key.session, item.wait or item.run
