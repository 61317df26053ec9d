"""What a state that was reported promises: nothing starts behind it, though every API and worker process is replaced.

Pauses, cancels, limits and approvals, asked for and answered over HTTP. The promise is checked in the event log, by the
number that the answer gave, and in the ledger that models and tools write as they begin.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.integration.agents import HELD
from tests.integration.api_server import ApiProcess, checked
from tests.integration.facts import Facts, check_session, read_facts
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import spec
from tests.integration.waiting import call

APP = "tests.integration.steered_agents:app"
STARTS = ("step_start", "action", "tool_execution_start")
DEADLINE_S = 90


@dataclass(frozen=True)
class Reported:
    """A session whose state was reported.

    Attributes:
        session: its id.
        run: the run that it is about.
        name: the run's name in the ledger.
        mark: number of the last event that the report may know of; nothing starts behind it.
        begun: how many model and tool calls had begun by then, by the ledger.
    """

    session: str
    run: str
    name: str
    mark: int
    begun: int


@dataclass(frozen=True)
class Steering:
    """The API and the ledger."""

    stack: Stack
    client: httpx.AsyncClient

    async def submit(self, agent: str, values: dict[str, Any], **more: Any) -> dict[str, Any]:
        body = {"agent": agent, "input": json.dumps(values), **more}
        answer = await self.client.post("/runs", json=body)
        return checked(answer, 200 if answer.status_code == 200 else 202)

    def begun(self, name: str) -> int:
        """How many model and tool calls have begun."""
        return sum(entry["kind"] in ("model", "tool") for entry in self.stack.entries(name))

    async def steer(self, path: str, state: str) -> dict[str, Any]:
        """A control's answer, which must say that the state is reached."""
        answer = checked(await self.client.post(path, params={"wait_s": 60}))
        assert answer["state"] == state, answer
        return answer

    async def underway(self, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """A run that is held in its first model call, or in two parallel tools, and what it was told to do."""
        held = {"latency": HELD} if kind == "model" else {"seconds": HELD}
        values = spec(steps=3, tool="none", calls=2, **held)
        run = await self.submit("worker", values)
        await self.stack.until_entries(values["name"], kind, 1 if kind == "model" else 2)
        return run, values

    async def paused(self, kind: str) -> Reported:
        """Paused, and what the answer said was in flight has ended: its events stand behind the pause's own."""
        run, values = await self.underway(kind)
        answer = await self.steer(f"/sessions/{run['session']}/pause", "paused")
        begun = self.begun(values["name"])
        self.stack.release(values)

        async def rests() -> bool:
            return checked(await self.client.get(f"/runs/{run['run']}"))["status"] == "parked"

        await eventually(rests, seconds=DEADLINE_S, what="the end of what is in flight")
        session = checked(await self.client.get(f"/sessions/{run['session']}"))
        since = self.begun(values["name"]) - begun
        assert since <= len(answer["in_flight"]), "only what was in flight may have begun"
        return Reported(run["session"], run["run"], values["name"], session["last_event"], begun + since)

    async def cancelled(self, kind: str) -> Reported:
        run, values = await self.underway(kind)
        answer = await self.steer(f"/runs/{run['run']}/cancel", "cancelled")
        return Reported(run["session"], run["run"], values["name"], answer["event"], self.begun(values["name"]))

    async def limited(self) -> Reported:
        """A run that may take two steps, waited for."""
        values = spec(steps=9, tool="none")
        run = await self.submit("worker", values, options={"max_steps": 2}, mode="wait", wait_s=60)
        assert (run["status"], run["error"]["type"]) == ("failed", "LimitExceeded"), run
        return Reported(run["session"], run["run"], values["name"], run["last_event"], self.begun(values["name"]))

    async def asking(self) -> Reported:
        """A run that waits for two approvals, as its submit answers."""
        values = spec(script=[])
        script = [[call("pay", values["name"], 1), call("pay", values["name"], 2)], "done"]
        run = await self.submit("clerk", {**values, "script": script}, mode="wait", wait_s=60)
        assert run["status"] == "parked", run
        session = checked(await self.client.get(f"/sessions/{run['session']}"))
        return Reported(run["session"], run["run"], values["name"], session["last_event"], self.begun(values["name"]))

    async def waits(self, session: str) -> list[dict[str, Any]]:
        return checked(await self.client.get("/waits", params={"session": session}))["waits"]

    async def ended(self, run: str) -> str:
        async def look() -> str | None:
            status = checked(await self.client.get(f"/runs/{run}"))["status"]
            return status if status in ("completed", "failed", "cancelled") else None

        return await eventually(look, seconds=DEADLINE_S, what=f"the end of run {run}")


@asynccontextmanager
async def processes(stack: Stack) -> AsyncGenerator[Steering]:
    """A worker and an API server of their own, killed at the end."""
    api, worker = ApiProcess(stack), WorkerProcess(stack, APP)
    try:
        worker.wait_ready()
        async with api.wait_ready().client() as client:
            yield Steering(stack, client)
    finally:
        api.kill()
        worker.kill()


async def facts_of(stack: Stack, session: str) -> Facts:
    async with stack.connect() as sessions:
        return await read_facts(sessions, session)


async def nothing_started(stack: Stack, reported: Reported) -> None:
    """No start stands behind the mark in the log, and none in the ledger."""
    facts = await facts_of(stack, reported.session)
    late = [event for event in facts.events if event.seq > reported.mark and event.type in STARTS]
    assert [(event.seq, event.type) for event in late] == [], (reported, [(e.seq, e.type) for e in facts.events])
    begun = [entry for entry in stack.entries(reported.name) if entry["kind"] in ("model", "tool")]
    assert len(begun) == reported.begun, begun


async def until_all_ended(stack: Stack, session: str) -> None:
    """Also the inputs that waited while the session was paused."""

    async def over() -> bool:
        async with stack.connect() as sessions:
            runs = (await read_facts(sessions, session)).runs
        return all(status in ("completed", "failed", "cancelled") for status in runs.values())

    await eventually(over, what=f"all runs of {session} ended")


async def until_served(steering: Steering, *paused: Reported) -> None:
    """Return once the new worker has run something, and paused sessions have been told of an input that they hold."""
    for one in paused:
        body = {"input": json.dumps(spec(steps=0))}
        held = checked(await steering.client.post(f"/sessions/{one.session}/runs", json=body), 202)
        assert held["paused"], held
    run = await steering.submit("worker", spec(steps=1, tool="none"), mode="wait", wait_s=60)
    assert await steering.ended(run["run"]) == "completed"


async def test_nothing_starts_after_a_state_was_reported_whoever_is_restarted(stack: Stack) -> None:
    """Paused in a model call and in tools, cancelled in both, stopped by a limit, and asking for approval; then all is killed.

    The states hold in new processes, an input to a paused session waits, and what is let go on goes on to its end.
    """
    async with processes(stack) as first:
        paused = [await first.paused("model"), await first.paused("tool")]
        over = [await first.cancelled("model"), await first.cancelled("tool"), await first.limited()]
        asking = await first.asking()
        everything = [*paused, *over, asking]
    async with processes(stack) as second:
        await until_served(second, *paused)
        for one in everything:
            await nothing_started(stack, one)
        for one in paused:
            assert checked(await second.client.get(f"/sessions/{one.session}"))["status"] == "paused"
            await second.steer(f"/sessions/{one.session}/pause", "paused")
        for one, status in zip(over, ("cancelled", "cancelled", "failed"), strict=True):
            await second.steer(f"/runs/{one.run}/cancel", status)
        waits = await second.waits(asking.session)
        assert len(waits) == 2
        answers = [{"decision": "reject", "reason": "no"}, {"decision": "approve"}]
        for wait, answer in zip(
            sorted(waits, key=lambda wait: wait["asked"]["arguments"]["amount"]), answers, strict=True
        ):
            checked(await second.client.post(f"/waits/{wait['wait']}", json={"answer": answer}))
        for one in everything:
            if one in paused:
                await second.steer(f"/sessions/{one.session}/resume", "resumed")
            assert await second.ended(one.run) == ("completed" if one not in over else _status(over, one))
        for one in everything:
            await until_all_ended(stack, one.session)
    for one in everything:
        await check_session(stack, one.session)
    assert [entry["amount"] for entry in stack.entries(asking.name, "tool")] == [2]
    for one in over:
        await nothing_started(stack, one)


def _status(over: list[Reported], one: Reported) -> str:
    return "failed" if one is over[-1] else "cancelled"
