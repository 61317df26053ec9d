"""A model that uses UAIP servers, as the first UAIP client drives one: told how it behaves, written anew.

First it searches for workflows and connects to one. Then its tools are those of the server's latest reply, and each call of
one is an action; what the reply says is what the model is told. Nothing here knows a workflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import httpx

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import BoundLLMModel, LLMRequest
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.tools import Tool

MAX_TURNS = 15
SEARCH = "search_remote_servers"
CONNECT = "establish_connection"
DISCONNECT = "disconnect_server"
SYSTEM = (
    "You reach other people's services through workflows. Find one that serves the user's wish, connect to it, use its "
    "tools one after another, and disconnect when the wish is done."
)


class Mode(StrEnum):
    """Whose tools the model has."""

    USER = "user"
    SERVER = "server"


@dataclass
class Connection:
    """A session of a workflow."""

    workflow: str
    session: str


@dataclass
class UaipLlmClient:
    """A conversation of a model with UAIP servers.

    Attributes:
        http: reaches the server.
        model: any that has tools.
        config: how the model is reached.
        compat: whether to behave as the first client does: refused actions are asked for with status 200, and any other
            status ends the conversation. Without it the model is told the `detail` of what was refused.
        messages: of the conversation, oldest first.
        offered: names of the tools that the model had in each turn.
        actions: that were sent, each with the status of its reply.
    """

    http: httpx.AsyncClient
    model: BoundLLMModel
    config: ProviderConfig | None = None
    compat: bool = False
    messages: list[Message] = field(default_factory=list[Message])
    offered: list[list[str]] = field(default_factory=list[list[str]])
    actions: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    connection: Connection | None = None
    _tools: list[Tool] = field(default_factory=list[Tool])
    _found: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def mode(self) -> Mode:
        return Mode.USER if self.connection is None else Mode.SERVER

    @property
    def tools(self) -> Sequence[Tool]:
        """What the model may call now."""
        if self.mode is Mode.SERVER:
            return [*self._tools, _tool(DISCONNECT, "Leave the workflow.", {})]
        search = _tool(SEARCH, "Search for workflows.", {"search_query": {"type": "string"}})
        if not self._found:
            return [search]
        names: list[JSONValue] = [{"const": name, "description": about} for name, about in self._found.items()]
        return [search, _tool(CONNECT, "Connect to a workflow that was found.", {"server_name": {"oneOf": names}})]

    async def ask(self, wish: str) -> str:
        """The model's last words on a wish.

        Raises:
            httpx.HTTPStatusError: with `compat`, an action was answered with another status than 200.
            TimeoutError: it was not done after 15 turns.
        """
        self.messages.append(UserMessage(wish))
        for _ in range(MAX_TURNS):
            answer = await self._think()
            if not answer.has_tool_calls:
                return answer.text
            results = [await self._carry_out(call) for call in answer.tool_calls or []]
            self.messages.append(ToolResultMessage(results))
        raise TimeoutError(f"the model was not done after {MAX_TURNS} turns")

    async def _think(self) -> AssistantMessage:
        tools = self.tools
        self.offered.append([tool.name for tool in tools])
        request = LLMRequest(list(self.messages), system=SYSTEM, tools=tools, config=self.config)
        answer = (await self.model.complete(request)).message
        self.messages.append(answer)
        return answer

    async def _carry_out(self, call: ToolCall) -> ToolResult:
        arguments: JSONObject = call.arguments if isinstance(call.arguments, dict) else {}
        match self.connection, call.tool_name:
            case None, "search_remote_servers":
                said = await self._search(str(arguments["search_query"]))
            case None, "establish_connection":
                said = await self._connect(str(arguments["server_name"]))
            case None, name:
                said = f"There is no tool {name!r} before a connection is established."
            case Connection(workflow=workflow), "disconnect_server":
                self.connection = None
                said = f"Disconnected from {workflow}."
            case Connection(), name:
                said = await self._act(action_of(name, arguments))
        return ToolResult(call.tool_call_id, said)

    async def _search(self, words: str) -> str:
        response = (await self.http.get("/api/workflows", params={"search": words})).raise_for_status()
        found: list[dict[str, Any]] = response.json()["workflows"]
        self._found = {item["name"]: item["description"] for item in found}
        return "\n".join(f"{name}: {about}" for name, about in self._found.items()) or "Nothing was found."

    async def _connect(self, workflow: str) -> str:
        response = (await self.http.post("/initialize", json={"workflow_name": workflow})).raise_for_status()
        self.connection = Connection(workflow, response.headers["X-Session-Id"])
        return await self._act({"action": "handshake"})

    async def _act(self, action: JSONObject) -> str:
        """What the reply says; its tools are the model's from now on."""
        assert self.connection is not None
        response = await self.http.post(
            "/execute",
            params={"compat": "reference"} if self.compat else {},
            headers={"X-Session-Id": self.connection.session},
            json={"workflow_name": self.connection.workflow, **action},
        )
        self.actions.append((str(action["action"]), response.status_code))
        if self.compat:
            response.raise_for_status()
        body: dict[str, Any] = response.json()
        if "tools" in body:
            self._tools = [
                Tool(item["name"], item["description"], item["input_schema"], None) for item in body["tools"]
            ]
        return body["content"] if response.is_success else body["detail"]


def action_of(tool: str, arguments: JSONObject) -> JSONObject:
    """The action that a call of a tool stands for: three tools are every server's, the others are tasks."""
    match tool:
        case "transition_stage":
            return {"action": "stage_transition", "stage": arguments.get("target_stage")}
        case "provide_state":
            return {"action": "state_input", "state_updates": arguments}
        case "terminate_session":
            return {"action": "terminate_session", **arguments}
        case _:
            return {"action": "method_call", "task": tool, "args": arguments}


def _tool(name: str, description: str, properties: JSONObject) -> Tool:
    parameters: JSONObject = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name, description, parameters, None)
