"""One action of a stage session, as a program holds it."""

from __future__ import annotations

from contextlib import aclosing

from perdure.protocols.uaip.reply import Reply, unsettled
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.stage_servers import StageServers
from perdure.store.stages.actions import find_action
from perdure.store.stages.rows import ActionRow, StageSessionRow
from perdure.uaip.refusal import session_not_found
from perdure.uaip.session import SessionStatus

QUEUED = "queued"
WAITING = "waiting"
RUNNING = "running"
_NEWS = ("stage.action_settled", "stage.waiting", "stage.paused", "stage.terminated", "stage.expired")


class StageAction:
    """An action that is stored. Waiting for it survives restarts of workers and servers.

    Attributes:
        row: as it was last read.
        repeated: it was stored before, under the same idempotency key.
    """

    def __init__(
        self, runtime: StageServers, row: ActionRow, session: StageSessionRow, *, repeated: bool = False
    ) -> None:
        """Hold an action.

        Args:
            runtime: its session's.
            row: as it was read.
            session: as it was read, before the row or with it.
            repeated: see the class.
        """
        self._runtime = runtime
        self._session = session
        self._after_seq = session.last_seq
        self.row = row
        self.repeated = repeated

    async def done(self) -> None:
        """Return once it is settled; one that is new also once it waits for a person, or for its session's resumption.

        Who asks for an action again waits for its result: that it waits has been said. While PostgreSQL is away, nothing
        is known, and it is waited for.

        Raises:
            RequestRefused: the session was deleted.
            UnknownSession: likewise.
            SessionGone: likewise.
        """
        if self._rests:
            return
        async with aclosing(self._runtime.stream.follow(self.row.key, after=self._after_seq)) as events:
            async for event in events:
                about = event.data.get("action_id", self.row.id)
                if event.type in _NEWS and about == self.row.id:
                    await self._runtime.stream.until_there(self._read)
                    if self._rests:
                        return

    async def reply(self) -> Reply:
        """What its client is told now.

        Raises:
            RequestRefused: the session was deleted.
        """
        if self.row.reply is None:
            await self._read()
        if self.row.reply is not None:
            return self.row.reply
        definition = await self._runtime.definition_of(self._session)
        status = "waiting" if self.row.state == WAITING else "paused" if self._is_held else "running"
        return unsettled(definition, self._session.session, self.row.action, self.row.id, status)

    @property
    def _rests(self) -> bool:
        """Whether nothing is to be waited for."""
        settled = self.row.reply is not None
        return settled if self.repeated else settled or self.row.state == WAITING or self._is_held

    @property
    def _is_held(self) -> bool:
        return self.row.state == QUEUED and self._session.session.status is SessionStatus.PAUSED

    async def _read(self) -> None:
        found = await find_action(self._runtime.database, self.row.key, self.row.id)
        if found is None:
            raise RequestRefused(session_not_found())
        self.row = found
        if found.reply is None:
            self._session = await self._runtime.find(found.key.session)
