"""A server of Chat Completions for tests: a worker with `batch_agents`, and API processes, for a tenant of their own."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent

from perdure.runtime.connect import connect
from perdure.runtime.sessions import Sessions
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess

APP = "tests.conformance.batch_agents:app"
AGENT = "echo-agent"
PLACE = {"PERDURE_TENANT": "batch", "PERDURE_TASK_QUEUE": "batch"}
COMPLETIONS = "/v1/chat/completions"


def function(name: str, **properties: str) -> dict[str, Any]:
    """A tool that the client runs; its parameters are text."""
    parameters = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


WEATHER, TIME = function("get_weather", location="string"), function("get_time")


def user(content: Any) -> dict[str, Any]:
    """A user's message."""
    return {"role": "user", "content": content}


def results_of(message: dict[str, Any], *results: str) -> list[dict[str, Any]]:
    """An assistant's message and a result for each of its calls."""
    calls = zip(message["tool_calls"], results, strict=True)
    return [message, *({"role": "tool", "tool_call_id": call["id"], "content": result} for call, result in calls)]


@dataclass(frozen=True)
class Batch:
    """A client of one API process."""

    http: httpx.AsyncClient

    async def post(
        self, *messages: dict[str, Any], path: str = COMPLETIONS, headers: dict[str, str] | None = None, **members: Any
    ) -> httpx.Response:
        """Ask for a completion."""
        body = {"model": AGENT, "messages": list(messages), **members}
        return await self.http.post(path, json=body, headers=headers or {})

    async def complete(
        self, *messages: dict[str, Any], headers: dict[str, str] | None = None, **members: Any
    ) -> dict[str, Any]:
        """A completion, which must succeed."""
        response = await self.post(*messages, headers=headers, **members)
        assert response.status_code == 200, response.text
        return response.json()

    async def say(self, content: Any, **members: Any) -> dict[str, Any]:
        """The one choice of the completion that answers a text."""
        (choice,) = (await self.complete(user(content), **members))["choices"]
        return choice

    @asynccontextmanager
    async def streamed(
        self, *messages: dict[str, Any], headers: dict[str, str] | None = None, **members: Any
    ) -> AsyncGenerator[tuple[httpx.Response, EventSource]]:
        """A stream of chunks."""
        body = {"model": AGENT, "messages": list(messages), "stream": True, **members}
        async with self.http.stream("POST", COMPLETIONS, json=body, headers=headers or {}) as response:
            yield response, EventSource(response)

    async def stream(self, content: Any, **members: Any) -> list[ServerSentEvent]:
        """All events of the stream that answers a text."""
        async with self.streamed(user(content), **members) as (_, source):
            return [event async for event in source.aiter_sse()]


def chunks_of(events: list[ServerSentEvent]) -> list[dict[str, Any]]:
    """The chunks of a stream that came to its end."""
    data = [event.data for event in events if event.event == "message"]
    assert data[-1] == "[DONE]", data[-1]
    return [json.loads(text) for text in data[:-1]]


def text_of(chunks: list[dict[str, Any]]) -> str:
    """What was said in chunks."""
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error of a response with this status."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def content_of(response: httpx.Response) -> str:
    """What a completion says."""
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


@contextmanager
def batch_worker(stack: Stack) -> Generator[WorkerProcess]:
    """A worker with the agents."""
    worker = WorkerProcess(stack, APP, **PLACE).wait_ready()
    try:
        yield worker
    finally:
        worker.kill()


@contextmanager
def batch_api(stack: Stack, **environment: str) -> Generator[ApiProcess]:
    """An API process."""
    api = ApiProcess(stack, **PLACE, **environment).wait_ready()
    try:
        yield api
    finally:
        api.kill()


@asynccontextmanager
async def client_of(api: ApiProcess) -> AsyncGenerator[Batch]:
    """A client of an API process."""
    async with httpx.AsyncClient(base_url=api.url, timeout=60) as http:
        yield Batch(http)


@asynccontextmanager
async def batch_sessions(stack: Stack) -> AsyncGenerator[Sessions]:
    """The tenant's sessions, as a program sees them."""
    addresses = stack.addresses
    async with connect(
        temporal_address=addresses.temporal, database_url=addresses.database_url, tenant=PLACE["PERDURE_TENANT"]
    ) as sessions:
        yield sessions
