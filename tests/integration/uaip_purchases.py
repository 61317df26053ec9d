"""A whole purchase in the shop, action by action, each with its key; and what must be true of it, whoever was killed meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.integration.api_server import checked
from tests.integration.stack import Stack
from tests.integration.uaip_clients import Visit

EMAIL = "ann@shop.example"
ACTIONS: list[tuple[str, dict[str, Any]]] = [
    ("method_call", {"task": "search", "args": {"words": "pen"}}),
    ("stage_transition", {"stage": "cart"}),
    ("method_call", {"task": "add", "args": {"sku": "pen-1"}}),
    ("method_call", {"task": "order_sample"}),
    ("method_call", {"task": "reserve"}),
    ("state_input", {"state_updates": {"user.email": EMAIL}}),
    ("stage_transition", {"stage": "checkout"}),
    ("method_call", {"task": "confirm", "args": {"limit": 5}}),
    ("method_call", {"task": "pay"}),
    ("stage_transition", {"stage": "done"}),
    ("method_call", {"task": "receipt"}),
]
EFFECTS = {"search": "none", "add": "idempotent", "order_sample": "at_most_once", "reserve": "once"}
"""A task of each effect class, in an order in which they can be called."""


RESULTS = {"reserve": "reserved", "pay": "paid"}
"""Of the tasks that are never run twice."""


@dataclass
class Purchase:
    """One purchase, its client, and a person who is asked.

    Attributes:
        stack: where its effects are noted.
        visit: its session.
        seconds: that each task takes.
        place: of its next action.
        replies: to those before.
        asked: what the person was asked: kind and task.
    """

    stack: Stack
    visit: Visit
    seconds: float = 0.0
    place: int = 0
    replies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    async def advance(self, until: int = len(ACTIONS)) -> None:
        """Do its actions up to a place, each sent again with its key until it is settled."""
        for place in range(self.place, until):
            await self._act(place, *ACTIONS[place])
            self.place = place + 1

    async def _act(self, place: int, action: str, members: dict[str, Any]) -> None:
        """What a stage still needs is provided: nobody knows the state that a task would have left whose outcome was lost."""
        if self.seconds and members.get("task") in (*EFFECTS, "pay"):
            members = {**members, "args": {**members.get("args", {}), "seconds": self.seconds}}
        answer = await self.visit.settle(action, at=place, meanwhile=self._ask_the_person, **members)
        self.replies.append(answer.json())
        if answer.status_code != 200:
            lacking = checked(answer, 422)["missing"]
            given = await self.visit.settle("state_input", state_updates=dict.fromkeys(lacking, f"for {EMAIL}"))
            self.replies += [checked(given), checked(await self.visit.settle(action, at=place, **members))]

    async def _ask_the_person(self) -> None:
        wait = (await self.visit.shown())["wait"]
        if wait is not None and wait["answer"] is None:
            self.asked.add((wait["kind"], wait["task"]))
            answer = {"approved": True} if wait["kind"] == "approval" else self._outcome(wait)
            await self.visit.answered(wait["action_id"], answer)

    def _outcome(self, wait: dict[str, Any]) -> dict[str, Any]:
        """The person looks, and says what is."""
        if any(entry["key"] == wait["action_id"] for entry in self.stack.entries(self.visit.id, "effect")):
            return {"outcome": "done", "result": RESULTS[wait["task"]]}
        return {"outcome": "not_done"}

    async def check(self) -> None:
        """It is complete; each action was done once, in order, and each effect was had as often as it may be."""
        shown = await self.visit.shown()
        assert (shown["stage"], shown["status"], shown["open_actions"]) == ("done", "open", 0)
        assert shown["state"]["receipt"] == f"for {EMAIL}"
        history = await self.visit.history()
        assert [entry["ordinal"] for entry in history] == list(range(1, len(self.replies) + 1))
        assert [entry["action_id"] for entry in history] == [reply["action_id"] for reply in self.replies]
        had = Counter(entry["task"] for entry in effects_of(self.stack, self.visit))
        failed = [reply for reply in self.replies if reply["status"] == "error"]
        assert {reply["error"]["type"] for reply in failed} <= {"OutcomeUnknown"}
        assert {reply["task"] for reply in failed} <= {"order_sample", "confirm"}
        for task in (*EFFECTS, "confirm", "pay"):
            least = 0 if task in [reply["task"] for reply in failed] else 1
            assert least <= had[task] <= 1, (task, had)

    async def check_untroubled(self) -> None:
        """And nothing of it failed, was repeated or asked but for the approval."""
        await self.check()
        assert [reply["status"] for reply in self.replies] == ["ok"] * len(ACTIONS), self.replies
        assert (await self.visit.shown())["state"] == {"receipt": f"for {EMAIL}", "limit": 5}
        assert self.asked == {("approval", "confirm")}


def effects_of(stack: Stack, visit: Visit) -> list[dict[str, Any]]:
    """What a session's tasks did. A repetition with the same key is one effect of a task that heeds it, or has none."""
    seen: set[str] = set()
    found: list[dict[str, Any]] = []
    for entry in stack.entries(visit.id, "effect"):
        if entry["effect"] not in ("none", "idempotent") or entry["key"] not in seen:
            found.append(entry)
        seen.add(entry["key"])
    return found
