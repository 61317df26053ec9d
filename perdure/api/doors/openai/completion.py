"""One completion: what a run says until it ends, or until it waits for tools of the client's.

The request that brings the tools' results is told the next part of the same run. A part is found in the event log, so
it is told the same however often it is asked for, at any process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from perdure.errors import PaymentNeeded
from perdure.protocols.openai_chat.chat_flow import ChatFlow
from perdure.protocols.openai_chat.completion import CompletionHead
from perdure.protocols.uamp_events.response_flow import ResponseFlow
from perdure.protocols.uamp_events.server_events import ResponseDone
from perdure.protocols.uamp_events.usage import UsageStats, rest_of, usage_stats
from perdure.runtime.payments import Payments
from perdure.runtime.response_rows import ResponseRows, ToldRow, response_events
from perdure.runtime.run_handle import RunHandle
from perdure.store.database import Database
from perdure.store.run_messages import read_usage
from perdure.uap.ids import derive_id
from perdure.upp.json_value import JSONObject


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a run.

    Attributes:
        handle: of the run.
        client_tools: names of the tools that the client runs.
        answered: the waits whose answers it goes on from; empty for the run's beginning.
        has_key: whether the same request again is answered by the same part.
        is_paid: the agent is paid for.
        runs_alone: whether calls of a tool run alone.
    """

    handle: RunHandle
    client_tools: Collection[str]
    runs_alone: Callable[[str], bool]
    answered: frozenset[str] = frozenset()
    has_key: bool = False
    is_paid: bool = False

    @property
    def id(self) -> str:
        """The completion's id: each part of a run has its own, the same each time."""
        run = self.handle.id
        ident = derive_id(run, "completion", *sorted(self.answered)) if self.answered else run
        return f"chatcmpl-{ident.replace('-', '')}"


class Completion:
    """Tells one part of a run.

    Attributes:
        part: which.
        ended_at: seconds since the epoch at which it was complete.
    """

    def __init__(
        self, database: Database, payments: Payments, part: Part, model: str, *, created: int, streams: bool
    ) -> None:
        """Tell a part.

        Args:
            database: the store.
            payments: of the tenant's runs.
            part: which.
            model: what the client calls the agent.
            created: seconds since the epoch.
            streams: whether it is told in chunks.
        """
        self.part = part
        self.ended_at = created
        self._database = database
        self._payments = payments
        self._flow = ResponseFlow(
            part.id,
            part.handle.id,
            part.handle.session,
            client_tools=part.client_tools,
            paid=part.is_paid,
            runs_alone=part.runs_alone,
        )
        self._chat = ChatFlow(CompletionHead(part.id, model, created), streams=streams)
        self._waited = False
        self._begun = not part.answered
        self._before = 0
        self._seen: set[str] = set()
        self._seen_before: set[str] = set()

    async def chunks(self) -> AsyncGenerator[list[JSONObject], None]:
        """Its chunks as they come, to the last; some at once where they are there. Read once.

        Raises:
            ChatFault: the run failed or was cancelled.
            PaymentNeeded: the run waits until it is paid for.
            ServerError: this process does not follow events any more.
            SessionGone: the session was deleted.
        """
        handle = self.part.handle
        rows = ResponseRows(self._database, handle.accepted.key, handle.id)
        async with aclosing(response_events(handle, rows, self._flow)) as told:
            async for row in told:
                chunks = await self._take(row) if self._has_begun(row) else []
                if chunks:
                    yield chunks
                if self._chat.is_over:
                    self.ended_at = int(row.row.at.timestamp())
                    return

    async def whole(self) -> JSONObject:
        """All of it, once it is complete; raises as `chunks` does."""
        async with aclosing(self.chunks()) as chunks:
            async for _ in chunks:
                pass
        return self._chat.completion()

    @property
    def text(self) -> str:
        """What was said in it."""
        return self._chat.text

    def usage_chunk(self) -> JSONObject:
        """The chunk of a stream that tells the usage; once all other chunks were read."""
        return self._chat.usage_chunk()

    def _has_begun(self, told: ToldRow) -> bool:
        """Whether a row is of this part: it begins behind the one with the last result that it goes on from."""
        if self._begun:
            return True
        message = told.row.data.get("message")
        if told.row.source == "upp" and isinstance(message, str):
            self._seen_before.add(message)
        if self._flow.is_over:  # somebody ended the run while it waited
            self._begun = True
        elif self.part.answered & set(self._flow.open_calls.values()):
            self._waited = True
        elif self._waited:
            self._begun = True
            self._before = len(self._flow.text)
        return self._flow.is_over

    async def _take(self, told: ToldRow) -> list[JSONObject]:
        message = told.row.data.get("message")
        if told.row.source == "upp" and isinstance(message, str):
            self._seen.add(message)
        text, stop = self._flow.text[self._before :], "end_turn" if told.answer is None else told.answer.stop
        chunks = self._chat.take(told.events, text, stop=stop)
        if self._flow.waits_for_client:
            chunks += self._chat.leave_to_client(self._flow.reminders(), self._flow.open_calls)
        if self._chat.is_over:
            self._chat.usage = await self._usage(told)
        elif self._flow.open_payment is not None:
            await self._check_paid()
        return chunks

    async def _check_paid(self) -> None:
        """What is asked for in the log may have been paid since."""
        waiting = await self._payments.open(self.part.handle.id)
        if waiting is None:
            return
        schemes = cast("list[dict[str, str]]", waiting.asked["schemes"])
        amount, currency = str(waiting.asked["amount"]), str(waiting.asked["currency"])
        raise PaymentNeeded(
            f"the run waits until {amount} {currency} are paid: ask again with the same Idempotency-Key and a payment that "
            "covers it",
            accepts=[{**scheme, "amount": amount, "currency": currency} for scheme in schemes],
        )

    async def _usage(self, told: ToldRow) -> UsageStats:
        """What the part has used: in its end what is left of the run's, before it what its answers have."""
        whole = next((event.response.usage for event in told.events if isinstance(event, ResponseDone)), None)
        if whole is None:
            return await self._of_answers(self._seen - self._seen_before)
        return rest_of(whole, await self._of_answers(self._seen_before)) or UsageStats()

    async def _of_answers(self, messages: Collection[str]) -> UsageStats:
        if not messages:
            return UsageStats()
        return usage_stats(await read_usage(self._database, self.part.handle.accepted.key, messages))
