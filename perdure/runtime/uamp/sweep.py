"""What any process does for UAMP's sessions that nobody uses any more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

from perdure.runtime.rounds import repeat, seldom
from perdure.runtime.uamp.chats import UampChats, presence
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.uamp.care import delete_old, find_idle
from perdure.store.uamp.seats import clear_seats, users_over
from perdure.uap.session_key import SessionKey

PERIOD = timedelta(seconds=2)
TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class UampTimes:
    """How long sessions are kept.

    Attributes:
        idle: one whose client was silent for so long ends, unless a response of its is open.
        retention: of what has ended, and of mail.
    """

    idle: timedelta = timedelta(days=1)
    retention: timedelta = timedelta(days=7)


class UampSweep:
    """Its rounds."""

    def __init__(self, database: Database, announcer: Announcer, times: UampTimes) -> None:
        """Look after sessions in `database`; whom it concerns is told through an announcer of mail."""
        self._database = database
        self._announcer = announcer
        self._times = times

    async def run(self) -> NoReturn:
        """A round each `PERIOD` until cancelled; what is kept for days is looked at in each fifth."""
        await repeat((self.clear_seats, self.end_idle, seldom(self.delete_old)), PERIOD, jitter=0.2)

    async def end_idle(self) -> int:
        """Whoever is connected is told with reason "timeout"; how many ended."""
        ended = 0
        for tenant, ident in await find_idle(self._database, idle=self._times.idle):
            ended += await UampChats(self._database, tenant, self._announcer).end(ident, TIMEOUT)
        return ended

    async def clear_seats(self) -> int:
        """Tell chats whose users' processes have gone; how many users."""
        over = await users_over(self._database)
        for key, user, username, chat in over:
            told = presence(user, username, chat or key.session, online=False)
            for ident in await clear_seats(self._database, key, user, told):
                self._announcer.changed(SessionKey(key.tenant, ident))
        return len(over)

    async def delete_old(self) -> int:
        """Delete what is kept no longer; how many sessions."""
        return await delete_old(self._database, retention=self._times.retention)
