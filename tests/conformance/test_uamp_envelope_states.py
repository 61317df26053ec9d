"""Check 46 of the envelope's conformance list, on the rows that all processes share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from sqlalchemy.exc import IntegrityError

from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.store.database import Database
from perdure.store.envelopes.beginning import begin_exchange
from perdure.store.envelopes.exchanges import opening_envelope
from perdure.store.envelopes.flow import acknowledge
from perdure.store.envelopes.frames import drop_unsent, take_frames
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.envelopes.settling import hold_exchange, settle
from tests.integration.envelope_story import PEER, EnvelopeStory
from tests.integration.stack import Stack
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENDERS = [PEER, "did:web:other.example", "did:web:here.example"]
STEPS = some.sampled_from(list(Step)).map(lambda step: ("step", step))
ENVELOPES = some.tuples(
    some.sampled_from(["cancel", "error", "progress", "confirm", "deny", "inform", "notify"]),
    some.sampled_from(SENDERS), some.sampled_from(["reply_to", "stream_id"]),
).map(lambda told: ("envelope", told))  # fmt: skip
OTHERS = some.sampled_from(["frame", "take", "ack", "drop", "begin", "again"]).map(lambda name: (name, None))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def database(stack: Stack) -> AsyncGenerator[Database]:
    """Connections of our own."""
    opened = Database(stack.addresses.database_url, pool_size=2)
    yield opened
    await opened.close()


@settings(
    max_examples=scaled(240),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    intent=some.sampled_from(["ask", "propose", "subscribe"]),
    happenings=some.lists(some.one_of(STEPS, ENVELOPES, OTHERS), min_size=1, max_size=12),
)
async def test_e46_no_transition_leaves_a_terminal_state(
    database: Database, intent: str, happenings: list[tuple[str, Any]]
) -> None:
    """Whatever happens to an exchange, in whatever order: an end stays, with its time and its reason."""
    envelopes = EnvelopeStory(database)
    new = envelopes.new(intent)
    row = (await envelopes.keep(new)).exchange
    assert row is not None
    session = await envelopes.session()
    for name, what in happenings:
        envelopes = envelopes.later(timedelta(seconds=1))
        before = await envelopes.row(row)
        if name == "again":
            assert (await envelopes.keep(new)).repeated
        else:
            await happen(envelopes, before, name, what, session)
        after = await envelopes.row(row)
        if before.state.is_terminal:
            assert (after.state, after.ended_at, after.error) == (before.state, before.ended_at, before.error)
        elif after.state.is_terminal:
            assert after.ended_at == envelopes.now
        else:
            assert after.state is State.IN_PROGRESS
        assert after.session in (before.session, session)
        assert await opening_envelope(database, after) == new.raw


async def happen(envelopes: EnvelopeStory, row: ExchangeRow, name: str, what: Any, session: str) -> None:
    """One of the things that processes do with an exchange; what is refused is refused."""
    database = envelopes.database
    match name:
        case "step":
            error = {"code": "5.00", "message": str(envelopes.now), "retryable": False}
            await settle(database, row.tenant, row.id, what, now=envelopes.now, error={**error})
        case "envelope":
            told, sender, by = what
            names = {"reply_to": row.envelope} if by == "reply_to" else {"stream_id": row.stream_id}
            try:
                await envelopes.keep(envelopes.new(told, sender=sender, **names))
            except UAMPError as refused:
                assert refused.code in ("4.03", "4.04")  # noqa: PT017  # most are not refused
        case "frame" if not row.is_over:
            await envelopes.framed(row, "done" if row.next_seq > 2 else "chunk")
        case "take":
            await take_frames(database, row.tenant, row.id, after=row.acked, window=2, limit=9)
        case "ack" if row.sent >= 0:
            await acknowledge(database, row.tenant, row.id, row.sent)
        case "drop":
            async with database.transaction(row.key) as connection:
                held = await hold_exchange(connection, row.tenant, row.id)
                assert held is not None
                await drop_unsent(connection, held)
        case "begin":
            await begin_exchange(database, row.tenant, row.id, session, None)
        case _:
            pass


@pytest.mark.parametrize("table", ["envelope_exchanges", "envelopes"])
async def test_e46_no_writer_can_leave_a_terminal_state(database: Database, table: str) -> None:
    """Not even one that does not know the rules: the database refuses it."""
    envelopes = EnvelopeStory(database)
    row = await envelopes.opened()
    await settle(database, row.tenant, row.id, Step.CANCEL, now=envelopes.now)
    for state in State:
        statement = f"update perdure.{table} set state = '{state}' where tenant_id = '{row.tenant}'"
        async with database.transaction() as connection:
            if state is State.CANCELLED:
                await connection.exec_driver_sql(statement)
                continue
            with pytest.raises(IntegrityError, match="has ended"):
                await connection.exec_driver_sql(statement)
    assert (await envelopes.row(row)).state is State.CANCELLED
