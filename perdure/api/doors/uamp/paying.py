"""What a client of UAMP pays with: tokens come in with its events, and what they stand for is kept. Source: UAMP 1.0, sections 5.15 and 7.2."""

from __future__ import annotations

from perdure.api.doors.uamp.services import Services, now_ms
from perdure.protocols.uamp_events.client_events import ClientEvent, InputText
from perdure.protocols.uamp_events.commands import SubmitPayment
from perdure.protocols.uamp_events.log_row import Head
from perdure.protocols.uamp_events.payment_story import of_token, payment_balance, payment_error, submitted
from perdure.protocols.uamp_events.surrounding_events import ServerEvent
from perdure.store.uamp.held import held_session
from perdure.store.uamp.responses import find_response
from perdure.uap.ids import new_id
from perdure.uap.payments import Refusal, SubmittedPayment
from perdure.upp.json_value import JSONObject


class Paying:
    """The payments of one session to its agent."""

    def __init__(self, services: Services, tenant: str, agent: str, session_id: str) -> None:
        """Of a tenant's session with an agent."""
        self._services = services
        self._payments = services.backend.payments(tenant)
        self._tenant = tenant
        self._agent = agent
        self._session = session_id

    async def is_asked_for(self) -> bool:
        """Whether the agent's responses cost its clients something. Raises GateMissing."""
        return await self._payments.policy(self._agent) is not None

    async def preload(self, token: str | None) -> tuple[JSONObject | None, list[ServerEvent]]:
        """What a token stands for, without the token; and what the client is told if it stands for nothing."""
        return (None, []) if token is None else await self._accepted(of_token(token))

    async def taken_out(self, event: ClientEvent) -> tuple[ClientEvent, JSONObject | None, list[ServerEvent]]:
        """An event without the payment token that came with it; what that stands for, and what the client is told."""
        if not isinstance(event, InputText) or event.payment_token is None:
            return event, None, []
        source, replies = await self.preload(event.payment_token)
        return event.model_copy(update={"payment_token": None}), source, replies

    async def submit(self, command: SubmitPayment, *, by: str) -> list[ServerEvent]:
        """Pay for a response that waits for it, which its log then tells; else keep the payment for those that come."""
        payment = submitted(command.payment)
        if command.response_id is not None:
            response = await find_response(self._services.database, self._tenant, command.response_id)
            run = None if response is None else response.run
            outcome = None if run is None else await self._payments.submit(run, payment, by=by)
            if isinstance(outcome, Refusal):
                return [payment_error(outcome, self._head(), command.response_id)]
            if outcome is not None:
                return []
        source, refused = await self._accepted(payment)
        if source is None:
            return refused
        async with held_session(self._services.database, self._tenant, self._session) as held:
            if held is not None:
                await held.change(payment=source)
        balance = await self._payments.balance(self._agent, source)
        return [
            payment_error(balance, self._head())
            if isinstance(balance, Refusal)
            else payment_balance(balance, self._head())
        ]

    async def _accepted(self, payment: SubmittedPayment) -> tuple[JSONObject | None, list[ServerEvent]]:
        source = await self._payments.accept(self._agent, payment, covers=False)
        return (None, [payment_error(source, self._head())]) if isinstance(source, Refusal) else (source, [])

    def _head(self) -> Head:
        return Head(event_id=new_id(), timestamp=now_ms(), session_id=self._session)
