"""The sweep of payments: runs that have ended and whose payments nobody has settled, as after a worker's death, are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import NoReturn

from perdure.runtime.rounds import repeat
from perdure.store.database import Database, is_away
from perdure.store.events import Announcer
from perdure.store.payments.run_payments import find_left
from perdure.store.payments.settling import settle_payments
from perdure.uap.payments import PaymentGate

logger = logging.getLogger(__name__)

PERIOD = timedelta(seconds=5)
OLDER = timedelta(seconds=5)
"""A run that ended a moment ago is about to be settled by its own worker."""


class PaymentSweep:
    """One worker's sweep: only a worker has its app's gate."""

    def __init__(self, database: Database, gates: Mapping[str, PaymentGate], announcer: Announcer) -> None:
        """Settle through `gates` what is found in `database`."""
        self._database = database
        self._gates = gates
        self._announcer = announcer

    async def run(self) -> NoReturn:
        """Look each `PERIOD` until cancelled."""
        await repeat((self.look,), PERIOD, jitter=0.2)

    async def look(self) -> int:
        """One round; returns how many runs it settled."""
        settled = 0
        for key, run in await find_left(self._database, self._gates, older=OLDER):
            try:
                told = await settle_payments(self._database, self._gates, key, run)
            except Exception as error:
                if is_away(error):
                    raise
                logger.exception("payment.settle_failed run=%s", run)  # its gate's; the others are settled all the same
                continue
            if told:
                self._announcer.changed(key)
                settled += 1
        return settled
