"""Scenarios of asks of agents elsewhere; persons answer in their place, so that no other server is needed."""

from __future__ import annotations

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.waits import WaitRow
from tests.integration.remote_servers import APP, ask, submit
from tests.integration.stack import Stack, eventually
from tests.integration.waiting import asked
from tests.replay.playing import RECORDER, finish_all, worker


async def asks_remote_agents(stack: Stack, sessions: Sessions) -> RunHandle:
    """Three at once: one is answered after a person has approved it, one at once, one not in time."""
    async with worker(stack, APP):
        calls = [ask(tool, RECORDER) for tool in ("ask_approved", "ask_nobody", "ask_soon")]
        handle = await submit(sessions, *calls)
        waits = {str(wait.asked["tool"]): wait for wait in await asked(sessions, handle, 3)}
        await sessions.answer(waits["ask_nobody"].id, {"result": "nobody"}, by=RECORDER)
        await sessions.answer(waits["ask_approved"].id, {"decision": "approve"}, by=RECORDER)
        wait = await eventually(lambda: _remote(sessions, handle), what="the approved ask")
        await sessions.answer(wait.id, {"result": "approved"}, by=RECORDER)
        await handle.result()
        await finish_all(sessions, handle)
    return handle


async def _remote(sessions: Sessions, handle: RunHandle) -> WaitRow | None:
    """The ask of the call that was approved, once it is made."""
    waits = await sessions.waits(handle.session)
    return next((item for item in waits if (item.asked["tool"], item.kind) == ("ask_approved", "remote")), None)
