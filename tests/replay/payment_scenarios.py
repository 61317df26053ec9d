"""Scenarios of runs that are paid for."""

from __future__ import annotations

import asyncio

from perdure.activities import contracts
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from tests.integration.paid_agents import ENVIRONMENT
from tests.integration.paying import APP, Purse, by_token, payments_of, said, submit, until_asked, until_settled
from tests.integration.stack import Stack
from tests.replay.playing import RECORDER, executions, finish_all, worker


async def pays_on_its_way(stack: Stack, sessions: Sessions) -> RunHandle:
    """Nothing pays at first; then one balance does until it is used up, and another one to the end."""
    async with worker(stack, APP, **ENVIRONMENT):
        handle = await sessions.submit("dear", said(RECORDER, steps=3))
        payments, little = payments_of(sessions), await Purse.funded(sessions, "0.05")
        first = await until_asked(sessions, handle)
        await payments.submit(handle.id, by_token(little.token), by=RECORDER)
        await until_asked(sessions, handle, other_than=first.wait)
        other = await Purse.funded(sessions, "1")
        await payments.submit(handle.id, by_token(other.token), by=RECORDER)
        await handle.result()
        await until_settled(sessions, handle)
        await finish_all(sessions, handle)
    return handle


async def nobody_pays(stack: Stack, sessions: Sessions) -> RunHandle:
    """The run waits for a payment until its time is over."""
    async with worker(stack, APP, **ENVIRONMENT, PERDURE_TEST_WAIT_S="0.5"):
        handle = await sessions.submit("teller", said(RECORDER))
        await executions(sessions, handle.session)
    return handle


async def pays_in_another_execution(stack: Stack, sessions: Sessions) -> RunHandle:
    """An execution that waits for a payment gets so many signals that it continues as new; the next one is paid."""
    short = {"PERDURE_CONTINUE_AS_NEW_EVENTS": "100"}
    async with worker(stack, APP, **ENVIRONMENT, **short):
        handle = await sessions.submit("teller", said(RECORDER))
        asked = await until_asked(sessions, handle)
        key = handle.accepted.key
        flow = sessions.client.get_workflow_handle(key.workflow_id)
        first = (await flow.describe()).run_id
        while (await flow.describe()).run_id == first:
            await asyncio.gather(*(flow.signal(contracts.WAKE) for _ in range(10)))
        purse = await Purse.funded(sessions, "1")
        assert (await until_asked(sessions, handle)).wait == asked.wait
        await payments_of(sessions).submit(handle.id, by_token(purse.token), by=RECORDER)
        await handle.result()
        await until_settled(sessions, handle)
        await executions(sessions, handle.session)
    return handle


async def is_paid_beforehand(stack: Stack, sessions: Sessions) -> RunHandle:
    """What pays was handed in with the input."""
    async with worker(stack, APP, **ENVIRONMENT):
        handle = await submit(sessions, said(RECORDER, steps=1), await Purse.funded(sessions, "1"))
        await handle.result()
        await until_settled(sessions, handle)
        await finish_all(sessions, handle)
    return handle
