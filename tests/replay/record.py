"""Records the histories that `test_replay` replays: `python -m tests.replay.record [NAME...]`, by hand.

Real servers and real workers make them. A history says who made it: process ids, host names, paths in stack traces. All
of that is replaced here. Recording anew is right only when workflow code changes on purpose in a way that old histories
do not survive; then open sessions do not survive it either.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

from temporalio.client import WorkflowHandle, WorkflowHistory

from perdure.activities.contracts import CANCEL, PAUSE, SESSION, WAKE, SessionInput
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import is_open
from perdure.store.waits import open_waits
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.sub_agents import ask
from tests.integration.test_kills import finish, settle_waits, spec, submit
from tests.integration.test_sub_agents import children_of, lead

FOLDER = Path(__file__).parent / "histories"
RECORDER = "recorder"
AGENTS = "tests.integration.agents:app"
HOOKED = "tests.integration.hooked_agents:app"
AROUND = "tests.integration.middleware_agents:app"
SUB_AGENTS = "tests.integration.sub_agents:app"
CUSTOM = "tests.integration.custom_strategies:app"
ENDED_BY_HAND = "by hand"
GARBAGE: list[Any] = [7, "text", [1], {"id": 1}, {"run": []}, b"\x00\xff", "\ud800"]

Scenario: TypeAlias = Callable[[Stack, Sessions], Awaitable[RunHandle]]


@asynccontextmanager
async def worker(stack: Stack, app: str = AGENTS, **environment: str) -> AsyncGenerator[WorkerProcess, None]:
    """A worker of its own, dead at the end: all serve one task queue."""
    process = WorkerProcess(stack, app, **environment).wait_ready()
    try:
        yield process
    finally:
        process.kill()


async def act(sessions: Sessions, script: list[Any], options: RunOptions | None = None) -> RunHandle:
    """Submit a script to the actor."""
    return await sessions.submit("actor", json.dumps(spec(script=script)), options=options)


def call(tool: str, key: str, seconds: float = 0.0) -> dict[str, Any]:
    """A call of one of the working tools."""
    return {"tool": tool, "arguments": {"name": RECORDER, "key": key, "seconds": seconds, "filler": ""}}


def workflow(sessions: Sessions, handle: RunHandle) -> WorkflowHandle[Any, Any]:
    """The session's open execution."""
    return sessions.client.get_workflow_handle(SessionKey(sessions.tenant, handle.session).workflow_id)


async def until_event(handle: RunHandle, kind: str, count: int = 1) -> None:
    """Return once the run has had that many events of a kind."""
    async with asyncio.timeout(20):
        async for event in handle.events():
            count -= event.type == kind
            if count == 0:
                return


async def until_ledger(stack: Stack, values: dict[str, Any], kind: str, count: int = 1) -> None:
    """Return once that many lines of a kind are in the ledger."""

    async def found() -> bool:
        return len(stack.entries(values["name"], kind)) >= count

    await eventually(found, what=f"{count} times {kind}")


async def one_answer(stack: Stack, sessions: Sessions) -> RunHandle:
    """A run of one model call."""
    async with worker(stack):
        handle = await submit(sessions, spec(steps=0))
        assert await finish(sessions, handle) == "completed"
    return handle


async def tools_and_barriers(stack: Stack, sessions: Sessions) -> RunHandle:
    """Parallel tools with barriers among them, an unknown tool, a tool that raises, long results."""
    batch = [call(tool, f"{place:02}") for place, tool in enumerate(["none", "none", "barrier", "idempotent", "none"])]
    odd = [{"tool": "no_such_tool"}, {"tool": "failing", "arguments": {"text": "x"}}]
    long = [{"tool": "huge", "arguments": {"size": 9000}}, {"tool": "huge", "arguments": [1]}]
    async with worker(stack):
        handle = await act(sessions, [batch, odd, long, "done"])
        assert await finish(sessions, handle) == "completed"
    return handle


async def paused_and_resumed(stack: Stack, sessions: Sessions) -> RunHandle:
    """Paused and resumed twice, each time during a model call, so that the tool call after it is held."""
    values = spec(steps=3, latency=0.4)
    async with worker(stack):
        handle = await submit(sessions, values)
        for place in (1, 3):
            await until_ledger(stack, values, "model", place)
            assert (await sessions.pause(handle.session)).state == "paused"

            async def parked(run: RunHandle = handle) -> bool:
                return (await run.status()).status == "parked"

            await eventually(parked)
            assert (await sessions.resume(handle.session)).state == "resumed"
        assert await finish(sessions, handle) == "completed"
    return handle


async def cancelled_during_a_tool(stack: Stack, sessions: Sessions) -> RunHandle:
    """Two tools are running when the run is cancelled; a cancel of another run comes before."""
    values = spec(steps=1, calls=2, seconds=60)
    async with worker(stack):
        handle = await submit(sessions, values)
        await until_ledger(stack, values, "tool", 2)
        await workflow(sessions, handle).signal(CANCEL, {"id": "a", "run": "another run"})
        assert (await sessions.cancel(handle.session)).state == "cancelled"
    return handle


async def cancelled_during_an_answer(stack: Stack, sessions: Sessions) -> RunHandle:
    """An answer is streaming when the run is cancelled."""
    async with worker(stack):
        handle = await sessions.submit("talker", "talk")
        await until_event(handle, "text_delta")
        assert (await sessions.cancel(handle.session)).state == "cancelled"
    return handle


async def cancelled_by_temporal(stack: Stack, sessions: Sessions) -> RunHandle:
    """The execution itself is cancelled."""
    values = spec(steps=1, tool="none", seconds=60)
    async with worker(stack):
        handle = await submit(sessions, values)
        await until_ledger(stack, values, "tool")
        await workflow(sessions, handle).cancel()
        assert await finish(sessions, handle) == "cancelled"
    return handle


async def failed(stack: Stack, sessions: Sessions) -> RunHandle:
    """The model refuses after a step."""
    async with worker(stack):
        handle = await act(sessions, [[call("none", "0")], {"error": "INVALID_REQUEST"}])
        assert await finish(sessions, handle) == "failed"
    return handle


async def over_its_limit(stack: Stack, sessions: Sessions) -> RunHandle:
    """The run takes more steps than its options allow."""
    async with worker(stack):
        handle = await act(sessions, [[call("none", "0")]] * 4, RunOptions(max_steps=2))
        assert await finish(sessions, handle) == "failed"
    return handle


async def continues_as_new(stack: Stack, sessions: Sessions) -> RunHandle:
    """A run over several executions, paused and resumed on the way."""
    values = spec(steps=16, calls=2)
    async with worker(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        handle = await submit(sessions, values)
        await until_ledger(stack, values, "model", 10)
        assert (await sessions.pause(handle.session)).state == "paused"
        assert (await sessions.resume(handle.session)).state == "resumed"
        assert await finish(sessions, handle) == "completed"
    return handle


async def continues_as_new_while_parked(stack: Stack, sessions: Sessions) -> RunHandle:
    """A run that waits for its client gets more signals than one execution may hold, then its answer."""
    options = RunOptions(client_tools=[{"name": "pick_colour"}])
    async with worker(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        handle = await act(sessions, [[{"tool": "pick_colour"}, call("none", "1")], "thanks"], options)
        await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        target = workflow(sessions, handle)
        first = (await target.describe()).run_id

        async def left() -> bool:
            await target.signal(WAKE)
            return (await target.describe()).run_id != first

        await eventually(left)
        await until_event(handle, "run.parked", 2)
        assert await finish(sessions, handle, {"result": "blue"}) == "completed"
    return handle


async def parked_and_answered(stack: Stack, sessions: Sessions) -> RunHandle:
    """A worker dies after its `once` tool ran; the run parks until somebody says what came of it."""
    mark = str(stack.folder / "parked_and_answered")
    async with worker(stack, PERDURE_CRASH_AT="call_tool.ran", PERDURE_CRASH_ONCE=mark) as first:
        handle = await submit(sessions, spec(steps=1, calls=2, tool="once"))
        await asyncio.to_thread(first.wait_dead)
    async with worker(stack):
        await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        await settle_waits(sessions, handle.session, {"outcome": "happened", "result": "seen by a person"})
        assert await finish(sessions, handle, {"outcome": "not_run"}) == "completed"
    return handle


async def client_tool_answered(stack: Stack, sessions: Sessions) -> RunHandle:
    """A tool of the client's: the run parks until its result comes."""
    options = RunOptions(client_tools=[{"name": "pick_colour"}])
    async with worker(stack):
        handle = await act(sessions, [[{"tool": "pick_colour"}, call("none", "1")], "thanks"], options)
        await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        assert await finish(sessions, handle, {"result": "blue"}) == "completed"
    return handle


async def killed_worker(stack: Stack, sessions: Sessions) -> RunHandle:
    """Workers are killed during a model call and during tools; others go on."""
    values = spec(steps=2, calls=2, latency=0.5, seconds=0.5, tool="idempotent")
    async with worker(stack) as first:
        handle = await submit(sessions, values)
        await until_ledger(stack, values, "model")
        first.kill()
    async with worker(stack) as second:
        await until_ledger(stack, values, "tool")
        second.kill()
    async with worker(stack):
        assert await finish(sessions, handle) == "completed"
    return handle


async def garbage_signals(stack: Stack, sessions: Sessions) -> RunHandle:
    """Whatever can be signalled, on every name."""
    values = spec(steps=2, latency=0.5)
    async with worker(stack):
        handle = await submit(sessions, values)
        await until_ledger(stack, values, "model")
        target = workflow(sessions, handle)
        for name in (PAUSE, CANCEL, "answer", "nonsense"):
            for value in GARBAGE:
                await target.signal(name, value)
        await target.signal(WAKE, args=[1, 2, 3])
        await target.signal("answer", {"wait": "no such wait"})
        assert await finish(sessions, handle) == "completed"
    return handle


async def several_inputs(stack: Stack, sessions: Sessions) -> RunHandle:
    """Three runs in one execution, the second of which fails."""
    values = spec(steps=1, latency=0.3)
    async with worker(stack):
        first = await submit(sessions, values)
        await until_ledger(stack, values, "model")
        broken = await submit(sessions, {**spec(), "tool": 7, "steps": 1}, session=first.session)
        last = await submit(sessions, spec(steps=0), session=first.session)
        for handle in (first, broken, last):
            await finish(sessions, handle)
    return first


async def adopted(stack: Stack, sessions: Sessions) -> RunHandle:
    """An execution is terminated in the middle of a step; the next one adopts its run."""
    values = spec(steps=3, latency=0.3)
    async with worker(stack):
        handle = await submit(sessions, values)
        await until_ledger(stack, values, "model", 2)
        target = workflow(sessions, handle)
        await target.terminate(ENDED_BY_HAND)
        await sessions.client.start_workflow(
            SESSION,
            SessionInput(sessions.tenant, handle.session, "worker"),
            id=target.id,
            task_queue="perdure",
            start_signal=WAKE,
        )
        assert await finish(sessions, handle) == "completed"
    return handle


async def finish_all(sessions: Sessions, handle: RunHandle) -> None:
    """Wait until the execution is closed too: the next scenario's worker does not serve its agent."""
    await finish(sessions, handle)

    async def closed() -> bool:
        return not await is_open(sessions.client, SessionKey(sessions.tenant, handle.session))

    await eventually(closed, what="the end of the execution")


async def reasons_with_hooks(stack: Stack, sessions: Sessions) -> RunHandle:
    """React with every hook; the stop condition ends it."""
    async with worker(stack, HOOKED):
        spec_ = {"name": RECORDER, "rounds": 3, "stop": 2}
        handle = await sessions.submit("thinker", json.dumps(spec_))
        await finish_all(sessions, handle)
    return handle


async def recovers_by_hook(stack: Stack, sessions: Sessions) -> RunHandle:
    """on_error returns a turn."""
    async with worker(stack, HOOKED):
        spec_ = {"name": RECORDER, "rounds": 3, "fail": 2, "recover": True}
        handle = await sessions.submit("thinker", json.dumps(spec_))
        await finish_all(sessions, handle)
    return handle


async def plans(stack: Stack, sessions: Sessions) -> RunHandle:
    """A plan of two steps, the first with two rounds of tools."""
    async with worker(stack, HOOKED):
        handle = await sessions.submit("planner", "Go.")
        await finish_all(sessions, handle)
    return handle


async def reasons_over_executions(stack: Stack, sessions: Sessions) -> RunHandle:
    """React with hooks, continued as new."""
    async with worker(stack, HOOKED, PERDURE_CONTINUE_AS_NEW_EVENTS="120"):
        handle = await sessions.submit("thinker", json.dumps({"name": RECORDER, "rounds": 4}))
        await finish_all(sessions, handle)
    return handle


async def debates(stack: Stack, sessions: Sessions) -> RunHandle:
    """A strategy of a user's own: model calls at once, hooks, messages of its own, a turn of its own; two runs."""
    async with worker(stack, CUSTOM):
        handle = await sessions.submit("debate", json.dumps({"name": RECORDER}))
        await finish(sessions, handle)
        second = await sessions.submit("debate", json.dumps({"name": RECORDER}), session=handle.session)
        await finish_all(sessions, second)
    return handle


async def own_steps(stack: Stack, sessions: Sessions) -> RunHandle:
    """A strategy of a user's own with tools and a stop condition."""
    async with worker(stack, CUSTOM):
        handle = await sessions.submit("steps", json.dumps({"name": RECORDER}))
        await finish_all(sessions, handle)
    return handle


async def asks_sub_agents(stack: Stack, sessions: Sessions) -> RunHandle:
    """Two sub-agents at once, one of which asks another; one call has no task."""
    async with worker(stack, SUB_AGENTS):
        inner = ask("explorer", RECORDER, [ask("digger", RECORDER, "gold")], "found")
        wrong: dict[str, Any] = {"tool": "scout", "arguments": {}}
        handle = await lead(sessions, RECORDER, [inner, ask("scout", RECORDER, "seen"), wrong], "done")
        await finish_all(sessions, handle)
    return handle


async def is_a_sub_agent(stack: Stack, sessions: Sessions) -> RunHandle:
    """The session of a sub-agent that has one itself."""
    return await _child_of(sessions, await asks_sub_agents(stack, sessions))


async def cancelled_with_sub_agents(stack: Stack, sessions: Sessions) -> RunHandle:
    """Paused, resumed and cancelled while a sub-agent's model is asked."""
    async with worker(stack, SUB_AGENTS):
        handle = await lead(sessions, RECORDER, [ask("explorer", RECORDER, "never", latency=30)], "never")
        await until_event(handle, "child.started")
        assert (await sessions.pause(handle.session)).state == "paused"
        assert (await sessions.resume(handle.session)).state == "resumed"
        assert (await sessions.cancel(handle.session)).state == "cancelled"
        await executions(sessions, handle.session)  # closed by a worker that serves these agents
    return handle


async def cancelled_by_its_parent(stack: Stack, sessions: Sessions) -> RunHandle:
    """The session of a sub-agent whose parent is paused, resumed and cancelled."""
    return await _child_of(sessions, await cancelled_with_sub_agents(stack, sessions))


async def _child_of(sessions: Sessions, handle: RunHandle) -> RunHandle:
    children = await children_of(sessions, handle.session)
    return await sessions.run(next(str(child["run"]) for child in children if child["tool"] == "explorer"))


async def surrounded_over_executions(stack: Stack, sessions: Sessions) -> RunHandle:
    """Middleware changes the input and the answer and is told of everything, over three executions."""
    said = json.dumps({"name": RECORDER, "rounds": 8, "who": "Alice", "text": "Bob"})
    async with worker(stack, AROUND, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        handle = await sessions.submit("guarded", said)
        assert (await handle.result()).response.text == "B."
        await finish_all(sessions, handle)
    return handle


async def ended_by_middleware(stack: Stack, sessions: Sessions) -> RunHandle:
    """A middleware raises when it is told of a step; the agent's own error hook, then another middleware, hear of it."""
    said = json.dumps({"name": RECORDER, "rounds": 2, "raises": "b.observation", "recovers": "a"})
    async with worker(stack, AROUND):
        handle = await sessions.submit("traced", said)
        assert (await handle.result()).response.text == "a recovered"
        await finish_all(sessions, handle)
    return handle


SCENARIOS: list[Scenario] = [
    surrounded_over_executions,
    ended_by_middleware,
    asks_sub_agents,
    is_a_sub_agent,
    cancelled_with_sub_agents,
    cancelled_by_its_parent,
    debates,
    own_steps,
    reasons_with_hooks,
    recovers_by_hook,
    plans,
    reasons_over_executions,
    one_answer,
    tools_and_barriers,
    paused_and_resumed,
    cancelled_during_a_tool,
    cancelled_during_an_answer,
    cancelled_by_temporal,
    failed,
    over_its_limit,
    continues_as_new,
    continues_as_new_while_parked,
    parked_and_answered,
    client_tool_answered,
    killed_worker,
    garbage_signals,
    several_inputs,
    adopted,
]


async def executions(sessions: Sessions, session: str) -> list[WorkflowHistory]:
    """The histories of a session's executions, oldest first, once all of them are closed."""
    workflow_id = SessionKey(sessions.tenant, session).workflow_id

    async def closed() -> list[WorkflowHistory] | None:
        found = [item async for item in sessions.client.list_workflows(f"WorkflowId = '{workflow_id}'")]
        if not found or any(item.close_time is None for item in found):
            return None
        handles = [
            sessions.client.get_workflow_handle(workflow_id, run_id=item.run_id)
            for item in sorted(found, key=lambda item: item.start_time)
        ]
        return [await handle.fetch_history() for handle in handles]

    return await eventually(closed, what=f"the end of {workflow_id}")


def anonymous(value: Any) -> Any:
    """A history's JSON without what says on which machine it was made."""
    if isinstance(value, list):
        return [anonymous(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, item in cast("dict[str, Any]", value).items():
        if name in ("identity", "lastWorkerIdentity"):
            made[name] = RECORDER
        elif name == "stackTrace":
            made[name] = ""
        elif name == "taskQueue" and item.get("kind") == "TASK_QUEUE_KIND_STICKY":
            made[name] = {**item, "name": RECORDER}
        else:
            made[name] = anonymous(item)
    return made


def write(name: str, histories: list[WorkflowHistory]) -> None:
    """Write a scenario's executions, one event a line, in place of what was recorded before."""
    for old in FOLDER.glob(f"{name}.*.json"):
        old.unlink()
    for number, history in enumerate(histories, start=1):
        events: list[Any] = anonymous(json.loads(history.to_json()))["events"]
        lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
        (FOLDER / f"{name}.{number}.json").write_text(f'{{"events": [\n{lines}\n]}}\n', encoding="utf-8")


async def record(stack: Stack, names: set[str]) -> None:
    """Play the scenarios of these names, or all, and write what the server kept of them."""
    async with stack.connect() as sessions:
        for scenario in SCENARIOS:
            name = getattr(scenario, "__name__", "")
            if names and name not in names:
                continue
            handle = await scenario(stack, sessions)
            async with worker(stack):  # whatever is still open ends
                histories = await executions(sessions, handle.session)
            write(name, histories)
            sizes = ", ".join(str(len(history.events)) for history in histories)
            sys.stdout.write(f"{name}: {sizes} events\n")


def main() -> None:
    """Record on servers of its own, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder))
        stack.start()
        try:
            asyncio.run(record(stack, set(sys.argv[1:])))
        finally:
            stack.stop()


if __name__ == "__main__":
    main()
