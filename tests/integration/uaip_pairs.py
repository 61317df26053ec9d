"""A session behind a real door beside its specification: whatever is sent to one is sent to the other, and told apart."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.integration.api_server import checked
from tests.integration.stack import eventually
from tests.integration.uaip_clients import HEADER, Visit
from tests.unit.uaip.specification import Specification, told

NOT_FOUND = 404
"""What an action is answered with that the end of its session overtook."""


@dataclass(frozen=True)
class Sent:
    """An action that was settled.

    Attributes:
        body: of the request.
        key: its idempotency key.
        status: of the reply.
        reply: its body.
    """

    body: dict[str, Any]
    key: str
    status: int
    reply: dict[str, Any]


@dataclass
class Pair:
    """One session, served and specified.

    Attributes:
        visit: the served one.
        specified: the other.
        sent: with a key, and settled.
        held: bodies of actions that wait for the session's resumption, with their ids, oldest first.
        statuses: of all actions that are settled, in their order.
    """

    visit: Visit
    specified: Specification
    sent: list[Sent] = field(default_factory=list[Sent])
    held: list[tuple[dict[str, Any], str]] = field(default_factory=list[tuple[dict[str, Any], str]])
    statuses: list[int] = field(default_factory=list[int])

    def body(self, members: dict[str, Any]) -> dict[str, Any]:
        """A request's."""
        return {"workflow_name": self.visit.workflow, **members}

    async def post(self, body: Any, *, key: str | None = None, at: int = 0) -> httpx.Response:
        """Send something; nothing is waited for but a task."""
        headers = {HEADER: self.visit.id, "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.visit.door.http.post(self.visit.door.url("/execute", at), content=content, headers=headers)

    async def act(self, body: dict[str, Any], *, key: str | None = None, at: int = 0) -> None:
        """Send one action to both."""
        self.take(body, await self.post(body, key=key, at=at), key)

    def take(self, body: dict[str, Any], answer: httpx.Response, key: str | None = None) -> None:
        """The reply to an action must be what is specified; a paused session keeps it."""
        reply = answer.json()
        if reply.get("status") == "paused":
            assert self.specified.paused, reply
            assert answer.status_code == 200
            self.held.append((body, reply["action_id"]))
            return
        assert not self.specified.paused or "status" not in reply, f"what is an action waits: {reply}"
        self.compare(body, answer.status_code, reply)
        if key is not None and "action_id" in reply:
            self.sent.append(Sent(body, key, answer.status_code, reply))

    def compare(self, body: dict[str, Any], status: int, reply: dict[str, Any]) -> None:
        """The specification is told of an action, and says the same."""
        expected, outcome = self.specified.execute(self.visit.id, body, self.visit.workflow)
        assert (status, same(told(reply, outcome))) == (expected, same(outcome)), (body, reply)
        if "status" not in reply:
            return
        self.statuses.append(status)
        assert reply["session_id"] == self.visit.id
        if self.specified.ended:
            assert (reply["tools"], reply["transitions"]) == ([], [])
            return
        ways = [edge["to"] for edge in self.specified.document["transitions"][self.specified.stage]]
        assert (reply["current_stage"], reply["transitions"], reply["terminal"]) == (
            *(self.specified.stage, ways),
            not ways,
        )
        names = [tool["name"] for tool in reply["tools"]]
        assert names == (["provide_state"] if reply["status"] == "input_required" else self.specified.tools())

    async def act_at_once(self, bodies: list[dict[str, Any]]) -> None:
        """Send several actions at once: the history says in which order, and so the specification is told of them."""
        answers = await asyncio.gather(*(self.post(body, at=place) for place, body in enumerate(bodies)))
        ids = {answer.json().get("action_id"): place for place, answer in enumerate(answers)}
        order = [ids[entry["action_id"]] for entry in await self.visit.history() if entry["action_id"] in ids]
        rest = [place for place in range(len(bodies)) if place not in order]  # no actions of a session
        for place in [*order, *rest]:
            self.take(bodies[place], answers[place])

    async def send_again(self, sent: Sent, at: int) -> None:
        """With the same key: the same reply, whatever has happened since. Another action with it is refused."""
        answer = await self.post(sent.body, key=sent.key, at=at)
        assert (answer.status_code, answer.json()) == (sent.status, sent.reply)
        other = self.body({"action": "state_input", "state_updates": {"a": "another"}})
        assert (await self.post(other, key=sent.key, at=at)).status_code == 409

    async def refused(self, body: Any, status: int, *, key: str | None = None) -> None:
        """A request that is no action of the session, in no state of it."""
        answer = await self.post(body, key=key)
        assert answer.status_code == status, (body, answer.text)
        assert isinstance(answer.json()["detail"], str)

    async def pause(self) -> None:
        """Have actions wait."""
        await self._control("pause", "paused")
        self.specified.paused = not self.specified.ended

    async def resume(self) -> None:
        """What was held is done now, in the order in which it came."""
        await self._control("resume", "resumed")
        self.specified.paused = False
        await self._settle_held()

    async def terminate(self) -> None:
        """As an operator: at once, and what was held is answered so."""
        await self._control("terminate", "terminated")
        self.specified.ended = True
        self.specified.paused = False
        await self._settle_held()

    async def _control(self, kind: str, state: str) -> None:
        body = {"reason": "enough"} if kind == "terminate" else {}
        reached = await self.visit.control(kind, **body)
        assert reached["state"] == ("terminated" if self.specified.ended else state)

    async def _settle_held(self) -> None:
        for body, action in self.held:
            path = f"/api/stage-sessions/{self.visit.id}/actions/{action}"

            async def settled(path: str = path) -> dict[str, Any] | None:
                shown = await self.visit.door.get(path)
                return shown if shown["state"] == "settled" else None

            shown = await eventually(settled, what=f"the end of {body}")
            self.compare(body, shown["http"], shown["reply"])
        self.held = []

    async def check(self) -> None:
        """Its page shows what is specified."""
        shown = checked(await self.visit.door.http.get(self.visit.door.url(f"/api/stage-sessions/{self.visit.id}")))
        status = "terminated" if self.specified.ended else "paused" if self.specified.paused else "open"
        assert (shown["stage"], shown["status"]) == (self.specified.stage, status)
        assert same(shown["state"]) == same(self.specified.state)
        tools = [tool["name"] for tool in shown["tools"]]
        assert tools == ([] if self.specified.ended else self.specified.tools())

    async def check_history(self) -> None:
        """Every action is there once, in order, with its outcome."""
        history = await self.visit.history()
        assert [entry["ordinal"] for entry in history] == list(range(1, len(history) + 1))
        found = [entry["http"] for entry in history if entry["state"] == "settled"]
        assert [status for status in found if status != NOT_FOUND] == self.statuses
        assert [entry["action_id"] for entry in history if entry["state"] != "settled"] == [one for _, one in self.held]


def same(value: Any) -> str:
    """A text that is the same for the same JSON only: 1, 1.0 and true are three."""
    return json.dumps(value, sort_keys=True)
