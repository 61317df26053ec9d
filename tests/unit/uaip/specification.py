"""UAIP 0.1 once more, written from its text and the decided readings alone: what each request of a session must give.

Naive on purpose: one dict of values, one name of a stage, and no versions, sizes, ordinals or decisions.
"""

from __future__ import annotations

from typing import Any

KINDS = ("method_call", "stage_transition", "state_input", "terminate_session", "handshake")


class Specification:
    """One session of one workflow, which is given as its JSON document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.stage: str = document["initial_stage"]
        self.state: dict[str, Any] = {}
        self.ended = self.paused = False

    def tools(self) -> list[str]:
        ways = ["transition_stage"] if self.document["transitions"].get(self.stage) else []
        return [*self.document["stages"][self.stage]["tasks"], *ways, "terminate_session"]

    def execute(self, header: str | None, given: Any, name: str) -> tuple[int, Any]:
        """Status and outcome: the error's text, a task's result or error, else what the action is called."""
        if header is None:
            return 400, "Missing X-Session-Id header"
        if not isinstance(given, dict):
            return 400, "Invalid JSON body"
        body: dict[str, Any] = {**given}
        for member in ("workflow_name", "action"):
            if not body.get(member):
                return 400, f"Missing '{member}'"
            if member == "workflow_name" and body[member] != name:
                return 404, f"Workflow not found: {body[member]}"
            if member == "workflow_name" and self.ended:
                return 404, "Session not found"
        kind = body["action"]
        if kind not in KINDS:
            return 422, f"Unknown action type: {kind}"
        needed = {"method_call": "task", "stage_transition": "stage", "state_input": "state_updates"}.get(kind)
        if needed is not None and needed not in body:
            return 400, f"Missing '{needed}'"
        return getattr(self, kind)(body)

    def method_call(self, body: dict[str, Any]) -> tuple[int, Any]:
        task, args = body["task"], body.get("args", {})
        if task not in self.document["stages"][self.stage]["tasks"]:
            return 422, f"Task '{task}' not found in stage '{self.stage}'"
        if set(args) != ({"key"} if task == "drop" else {"key", "value"}) or not isinstance(args["key"], str):
            return 422, f"Invalid arguments for task '{task}'"
        if task == "drop":
            there = args["key"] in self.state  # with null, too
            self.state.pop(args["key"], None)
            return 200, there
        if task == "fail" or args["key"] == "events":
            return 200, "Error"
        self.state[args["key"]] = args["value"]
        return 200, args["value"]

    def stage_transition(self, body: dict[str, Any]) -> tuple[int, Any]:
        source, target = self.stage, body["stage"]
        edges = {edge["to"]: edge["keep"] for edge in self.document["transitions"].get(source, [])}
        if target not in edges:
            return 422, f"Cannot transition from '{source}' to '{target}'"
        kept = {key: value for key, value in self.state.items() if edges[target] == "all" or key in edges[target]}
        missing = [key for key in self.document["stages"][target]["prerequisites"] if key not in kept]
        if missing:
            return 422, f"To transition to '{target}', please provide: {', '.join(missing)}"
        self.stage, self.state = target, kept
        return 200, "moved"

    def state_input(self, body: dict[str, Any]) -> tuple[int, Any]:
        if "events" in body["state_updates"]:
            return 422, "Invalid state update"
        self.state.update(body["state_updates"])
        return 200, "updated"

    def terminate_session(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.ended = True
        return 200, "terminated"

    def handshake(self, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, "greeted"


def told(body: dict[str, Any], expected: Any) -> Any:
    """What a reply's body says, in the words of `Specification.execute`; of an error as much as is expected."""
    if "detail" in body:
        return body["detail"][: len(expected)] if isinstance(expected, str) else body["detail"]
    if body["status"] == "error":
        return "Error"
    words = {"stage_transition": "moved", "state_input": "updated", "terminate_session": "terminated"}
    return body["result"] if body["action"] == "method_call" else words.get(body["action"], "greeted")
