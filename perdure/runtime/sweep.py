"""The sweep: every process that can reach both servers looks for sessions that nobody has woken, and wakes them.

So a client may die between its commit and its signal, Temporal may be away at a submit, and an execution may be
terminated by hand: the inbox is served all the same. Workers fold the deltas of runs that ended a while ago, too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn

from temporalio.client import Client

from perdure.activities import contracts
from perdure.runtime.rounds import repeat
from perdure.runtime.temporal import SessionAddress, is_open, signal_session, tell_target, wake
from perdure.store.database import Database
from perdure.store.folding import find_unfolded, fold_run
from perdure.store.policies import queued_action
from perdure.store.sweep import Neglected, find_answered, find_due, find_silent, find_untold

PERIOD = timedelta(seconds=2)
SILENT_SECONDS = 15.0
_SILENT_EVERY = 5
_LONGEST_BACKOFF = 30


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
        self._round = 0
        self._tries: dict[tuple[str, str, str | None], tuple[int, int]] = {}

    async def run(self) -> NoReturn:
        """Look each `PERIOD` until cancelled; a server that is away only makes a round do nothing."""
        await repeat((self.look, self.fold), PERIOD)

    async def look(self) -> int:
        """One round; returns how many sessions were woken."""
        self._round += 1
        due, answered = await find_due(self._database), await find_answered(self._database)
        due += await find_untold(self._database)
        silent = await self._lost() if self._round % _SILENT_EVERY == 0 else []
        woken = 0
        names = {_name(item) for item in [*due, *answered, *silent]}
        self._tries = {name: tried for name, tried in self._tries.items() if name in names or tried[1] > self._round}
        for item in [*due, *answered, *silent]:
            if self._is_turn(_name(item)):
                await self._wake(item)
                woken += 1
        return woken

    async def fold(self) -> int:
        """One round of folding; returns how many runs are folded. What another process has in hand is left to it."""
        if self._fold_after is None:
            return 0
        ended = await find_unfolded(self._database, after=self._fold_after)
        return sum([await fold_run(self._database, run) for run in ended])

    async def _lost(self) -> list[Neglected]:
        silent = await find_silent(self._database, seconds=SILENT_SECONDS)
        return [item for item in silent if not await is_open(self._client, item.key)]

    def _is_turn(self, name: tuple[str, str, str | None]) -> bool:
        tries, next_round = self._tries.get(name, (0, 0))
        if self._round < next_round:
            return False
        self._tries[name] = (tries + 1, self._round + min(2**tries, _LONGEST_BACKOFF))
        return True

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
