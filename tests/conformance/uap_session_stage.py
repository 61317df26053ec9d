"""An agent for tests of sessions: what it answers depends on what was said last, and what it was told is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from perdure import agent
from perdure.execution import loop
from perdure.uap.agent import Agent
from perdure.uap.agent_execution import NamedStrategy
from perdure.uap.hooks import AgentStrategy
from perdure.uap.ids import derive_id
from perdure.uap.session import Session
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.tools import Tool

LOOK = "look"
BREAK = "break"
LOOKED = [LOOK, LOOK, "seen w0", "re: look"]
"""What is said when a talker of one round is told to look."""


@tool
async def look(word: str) -> str:
    """Look a word up."""
    return f"seen {word}"


@dataclass
class Talker:
    """A model that answers "re: ..."; it calls `tool_name` first, `rounds` times, for an input that begins with "look".

    One that begins with "break" fails after the calls, as often as `failures` says.

    Attributes:
        told: the texts that each model call was given.
    """

    tool_name: str = LOOK
    rounds: int = 1
    failures: int = 10**6
    told: list[list[str]] = field(default_factory=list[list[str]])

    def agent(
        self,
        *,
        name: str | None = None,
        tools: Sequence[Tool] = (look,),
        execution: NamedStrategy | None = None,
        strategy: AgentStrategy | None = None,
    ) -> Agent:
        return agent(
            name=name,
            model=scripted(self._answer),
            tools=tools,
            execution=execution or loop(max_iterations=100),
            strategy=strategy,
        )

    def _answer(self, request: LLMRequest) -> ScriptedAnswer:
        self.told.append([message.text for message in request.messages])
        place, asked = _last_input(request.messages)
        results = sum(isinstance(message, ToolResultMessage) for message in request.messages[place:])
        if asked.startswith((LOOK, BREAK)) and results < self.rounds:
            return call(self.tool_name, word=f"w{results}")
        if asked.startswith(BREAK) and self.failures > 0:
            self.failures -= 1
            raise UPPError("broken", ErrorCode.CONTENT_FILTERED)
        return f"re: {asked}"


def _last_input(messages: Sequence[Message]) -> tuple[int, str]:
    places = [place for place, message in enumerate(messages) if isinstance(message, UserMessage)]
    return places[-1], messages[places[-1]].text


def texts(messages: Sequence[Message]) -> list[str]:
    """What was said; a call stands as its tool's name."""
    return [_text(message) for message in messages]


def _text(message: Message) -> str:
    if isinstance(message, AssistantMessage) and message.tool_calls:
        return " ".join(item.tool_name for item in message.tool_calls)
    return message.text


def said(of: Session) -> list[str]:
    """What was said in a session up to where it stands."""
    return texts(of.thread_tree.history())


WHEN = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


def example() -> JSONObject:
    """The specification's own example of section 13.5, with messages where it has an ellipsis."""

    def said(who: str, *words: str) -> list[JSONValue]:
        kinds = (UserMessage, AssistantMessage)
        return [
            kinds[place % 2](word, id=derive_id(who, place), timestamp=WHEN).to_json()
            for place, word in enumerate(words)
        ]

    root: JSONObject = {
        "id": "node_root",
        "parentId": None,
        "name": "main",
        "thread": {"id": "thread_001", "messages": said("root", "hello", "hi")},
        "children": ["node_branch1"],
        "metadata": {},
    }
    branch: JSONObject = {
        "id": "node_branch1",
        "parentId": "node_root",
        "name": "alternative",
        "thread": {"id": "thread_002", "messages": said("branch", "and now?", "this")},
        "children": [],
        "metadata": {},
    }
    checkpoint: JSONObject = {
        "id": "cp_001",
        "sessionId": "sess_abc123",
        "timestamp": "2024-01-15T10:32:00.000Z",
        "step": 3,
        "threadId": "node_root",
        "state": {
            "step": 3,
            "messages": said("root", "hello", "hi"),
            "metadata": {"taskComplete": False},
            "reasoning": ["First, I need to...", "Now I should..."],
        },
        "subAgentStates": {},
        "metadata": {},
    }
    return {
        "version": "1.0.0",
        "id": "sess_abc123",
        "agentId": "agent_xyz789",
        "createdAt": "2024-01-15T10:30:00.000Z",
        "updatedAt": "2024-01-15T10:35:00.000Z",
        "threadTree": {"rootId": "node_root", "currentId": "node_branch1", "nodes": [root, branch]},
        "checkpoints": [checkpoint],
        "metadata": {"task": "Implement feature X"},
    }


def loaded(document: JSONValue) -> Session:
    """The session of a document, of a talker's agent."""
    return Session.from_json(document, Talker().agent())


def parts(of: Session, *path: str) -> Any:
    """What stands in a session's document under the keys, one below the other."""
    found: Any = of.to_json()
    for name in path:
        found = found[name]
    return found
