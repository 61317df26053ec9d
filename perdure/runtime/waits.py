"""What parked runs of a tenant wait for, and the answers that people and clients give."""

from __future__ import annotations

import dataclasses
import logging
from datetime import datetime

from perdure.activities import contracts
from perdure.activities.contracts import PAYMENT
from perdure.errors import InvalidInput, ServerUnavailable
from perdure.runtime.session_servers import SessionServers, address_of
from perdure.runtime.temporal import signal_session
from perdure.runtime.wait_answers import checked_answer
from perdure.store import waits
from perdure.store.sessions import find_address
from perdure.store.waits import WaitRow, answer_wait
from perdure.testing.crash import crash_point
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets

logger = logging.getLogger(__name__)


class SessionWaits(SessionServers):
    """The waits of one tenant's sessions."""

    async def waits(
        self,
        session: str | None = None,
        *,
        before: tuple[datetime, str] | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int = 50,
    ) -> list[WaitRow]:
        """One page of what waits for an answer, oldest first, sub-agents' waits too; each says whose root and path it is.

        Args:
            session: only of this session and its sub-agents.
            before: `asked_at` and `id` of the first wait of the page that comes next; this is the page before it.
            after: `asked_at` and `id` of the last wait of the page before.
            limit: at most so many, 1 to 1000.

        Raises:
            InvalidInput: an id that no session can have, a limit out of range, or both `before` and `after`.
        """
        named = None if session is None else self.key_of(session).session
        return await waits.open_waits(self.database, self.tenant, named, before=before, after=after, limit=limit)

    async def wait(self, wait: str) -> WaitRow:
        """One wait, open or answered, with the whole arguments that it is about.

        Raises:
            UnknownWait: there is none of that id.
        """
        row = await waits.read_wait(self.database, self.tenant, wait)
        if row.kind == PAYMENT:
            return row
        asked = {name: value for name, value in row.asked.items() if name != "cut"}
        whole = await waits.asked_arguments(self.database, row)
        return dataclasses.replace(row, asked={**asked, "arguments": whole})

    async def answer(self, wait: str, answer: JSONObject, *, by: str) -> WaitRow:
        """Answer an open wait, once; the parked run goes on.

        Args:
            wait: its id.
            answer: for an approval {"decision": "approve"}, with all the "arguments" if they are to be other ones than
                were asked about; {"decision": "reject", "reason": ...}; or {"decision": "answer", "result": ...,
                "isError": ...} in the tool's place. Each may have the "args_sha256" of the wait that was looked at: of
                other arguments it is not taken. For a tool's unknown outcome {"outcome": "happened", "result": ...},
                {"outcome": "not_run"}, {"outcome": "unknown"}, or {"outcome": "stop"}, which ends the run. For a
                client-side tool {"result": ..., "isError": ...}; likewise in the place of an agent elsewhere, whose own
                answer is not wanted then.
            by: who answers.

        Raises:
            UnknownWait: there is no such wait.
            WaitAnswered: it has been answered.
            WaitStale: its run has ended, it has expired, or its call's arguments are other ones now.
            InvalidInput: an answer of another form.
        """
        if not by.strip():
            raise InvalidInput("by is empty; say who answers")
        row = await waits.read_wait(self.database, self.tenant, wait)
        given, seen = checked_answer(row.kind, known_secrets.json(answer))
        return await self._give(wait, given, by, seen)

    async def answer_payment(self, row: WaitRow, source: JSONObject, *, by: str) -> WaitRow:
        """Answer the wait for a payment with what stands for it; the run goes on.

        Args:
            row: the wait.
            source: what the agent's gate accepted, {"scheme", "source"}; no secret is in it.
            by: who pays.

        Raises:
            WaitAnswered: it has been paid for.
            WaitStale: its run has ended, or waits no more.
        """
        return await self._give(row.id, source, by, None)

    async def _give(self, wait: str, given: JSONObject, by: str, seen: str | None) -> WaitRow:
        answered = await answer_wait(self.database, self.tenant, wait, given, by, args_sha256=seen)
        crash_point("answer.stored")
        self.announcer.changed(answered.key)
        agent = await find_address(self.database, answered.key)
        try:
            await signal_session(self.client, address_of(answered.key, agent), contracts.ANSWER, {"wait": wait})
        except ServerUnavailable as error:  # the row is answered; a worker's sweep tells the run
            logger.warning("wait.wake_deferred wait=%s %s", wait, error)
        return answered
