"""`remote_agent`: a tool that asks an agent of another server, and how it asks where no server is ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from perdure import agent, remote_agent
from perdure.errors import InvalidInput
from perdure.uap.remote_agent import DAY, UNSIGNED, RemoteAgentTool
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.providers.script import Answer, call
from perdure.upp.providers.scripted import scripted

URL = "https://agents.example"
DID = "did:web:agents.example"


@dataclass
class Image:
    """What an agent makes."""

    mime: str | None = "image/png"
    data: bytes = b"png"


@dataclass
class Said:
    """What an agent says."""

    text: str
    is_signed: bool
    media: tuple[Image, ...] = ()
    payload: JSONObject = field(default_factory=dict[str, JSONValue])


@dataclass
class Line:
    """A client that stands for a server elsewhere."""

    said: Said
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    closed: int = 0

    async def ask(self, content: str, *, to: str) -> Said:
        self.asked.append((content, to))
        return self.said

    async def close(self) -> None:
        self.closed += 1


def made(**options: Any) -> Any:
    """A tool, made with these options in place of the usual ones."""
    given: dict[str, Any] = {"url": URL, "did": DID, **options}
    return remote_agent(**given)


def test_the_model_sees_a_tool_that_takes_a_message() -> None:
    """Its calls are found again by their ids, and wait for a day."""
    tool = remote_agent(URL, did=DID, name="ask_geo", description="Knows maps.")
    assert isinstance(tool, RemoteAgentTool)
    assert (tool.name, tool.description, tool.timeout) == ("ask_geo", "Knows maps.", DAY)
    assert tool.parameters["required"] == ["message"]
    lead = agent(name="lead", model=scripted(["done"]), tools=[tool])
    (spec,) = lead.spec().tools
    assert (spec.effect, spec.timeout_s, spec.approval) == ("remote", 86_400.0, "")


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://agents.example/", "https://agents.example"),
        ("https://localhost:8700", "https://localhost:8700"),
        ("https://[::1]:8700", "https://[::1]:8700"),
    ],
)
def test_a_server_is_named_by_its_origin(url: str, kept: str) -> None:
    tool = remote_agent(url, did=DID)
    assert isinstance(tool, RemoteAgentTool)
    assert tool.url == kept


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "http://agents.example"}, "plain TCP"),
        ({"url": "https://me@agents.example"}, "https://HOST"),
        ({"url": "https://agents.example/path"}, "https://HOST"),
        ({"url": "https://agents.example:port"}, "no URL"),
        ({"binding": "http/1.1"}, "there are h2, h3, ws, grpc"),
        ({"binding": "grpc", "did": None}, "no manifest"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"name": "with space"}, "tool name"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        made(**options)


@pytest.mark.parametrize(
    ("said", "needs_signature", "result"),
    [
        (Said("four", True), True, ("four", False)),
        (Said("four", False), True, (UNSIGNED, True)),
        (Said("four", False), False, ("four", False)),
        (Said("", True, (Image(),)), True, ([{"mime": "image/png", "size_bytes": 3}], False)),
        (Said("", False, payload={"answer": 4, "transcript": {}}), False, ({"answer": 4}, False)),
        (Said("", True, payload={"answer": 4}), True, ("", False)),
    ],
)
async def test_in_process_the_client_asks(said: Said, needs_signature: bool, result: tuple[JSONValue, bool]) -> None:
    """By the client that was given, which is closed; an unsigned answer counts only where that is said."""
    line = Line(said)
    tool = remote_agent(URL, did=DID, needs_signature=needs_signature, client=lambda: line)
    script = [Answer("", tool_calls=[call("ask_agent", message="2 + 2?")]), "done"]
    turn = await agent(model=scripted(script), tools=[tool]).run("ask it")
    (execution,) = turn.tool_executions
    assert (execution.result, execution.is_error) == result
    assert (line.asked, line.closed) == ([("2 + 2?", DID)], 1)


@pytest.mark.parametrize(
    ("options", "arguments", "words"),
    [
        ({}, {"message": "hello"}, "must be durable"),
        ({"did": None, "client": lambda: Line(Said("", True))}, {"message": "hello"}, "needs the agent's DID"),
        ({"client": lambda: Line(Said("", True))}, {"message": " "}, "needs a 'message'"),
    ],
)
async def test_in_process_it_says_what_is_missing(
    options: dict[str, Any], arguments: dict[str, Any], words: str
) -> None:
    """The model is told, and goes on."""
    tool = made(**options)
    script = [Answer("", tool_calls=[call("ask_agent", **arguments)]), "done"]
    turn = await agent(model=scripted(script), tools=[tool]).run("ask it")
    (execution,) = turn.tool_executions
    assert execution.is_error
    assert words in str(execution.result)
    assert turn.response.text == "done"
