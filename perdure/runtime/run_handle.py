"""One run, as a program holds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from perdure.errors import SessionGone, UnknownRun, UnknownSession
from perdure.runtime.session_servers import SessionServers
from perdure.runtime.turns import read_turn
from perdure.store.accepted import Accepted
from perdure.store.events import Event
from perdure.store.policies import JOINED
from perdure.store.runs import TERMINAL, RunRow, find_run
from perdure.uap.events import RUN_TERMINAL
from perdure.upp.turn import Turn


class RunHandle:
    """One run. Following it or waiting for it survives restarts of workers and servers."""

    def __init__(self, runtime: SessionServers, accepted: Accepted) -> None:
        """Handle the run of an accepted input."""
        self._runtime = runtime
        self.accepted = accepted
        self.id = accepted.run
        self.session = accepted.key.session

    async def events(self, *, after: int | None = None) -> AsyncGenerator[Event, None]:
        """The run's events, live, up to and with its one terminal event.

        Args:
            after: begin behind this number; by default with the run's first event.

        Those of an input that joins a run are that run's from then on.
        """
        start = self.accepted.after_seq if after is None else after
        followed = (await self.status()).id if self.accepted.action == JOINED else self.id
        async for event in self._runtime.stream.follow(self.accepted.key, after=start):
            if event.type == "input.joined" and event.data.get("as") == self.id:
                followed = str(event.run)
            if event.run == followed:
                yield event
                if event.type in RUN_TERMINAL:
                    return

    async def result(self) -> Turn:
        """Wait for the end and return the turn.

        Raises:
            PerdureError: what failed the run, with its own type.
            RunCancelled: the run was cancelled.
            SessionGone: its session was deleted meanwhile.
        """
        if self.accepted.status in TERMINAL:
            return await read_turn(self._runtime.database, await self.status())
        ended: list[RunRow] = []

        async def is_over() -> bool:
            row = await self.status()
            if row.status in TERMINAL:
                ended.append(row)
            return bool(ended)

        try:
            await self._runtime.stream.until(self.accepted.key, is_over)
        except (UnknownRun, UnknownSession) as error:
            raise SessionGone(f"session {self.session} was deleted") from error
        return await read_turn(self._runtime.database, ended[0])

    async def status(self) -> RunRow:
        """The run's row as it stands now."""
        return await find_run(self._runtime.database, self.accepted.key.tenant, self.id)
