"""What tests of the chat door share: a server with its worker, and the AI SDK's own client in Node."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, cast

import httpx

from perdure.protocols.threadprotocol.canonical import canonical_bytes
from perdure.protocols.threadprotocol.validation import read_thread
from perdure.upp.json_value import JSONValue
from tests.clients.node import ROOT, run_script
from tests.integration.api_server import ApiProcess, checked

VERCEL = ROOT / "tests" / "clients" / "vercel"
READER = ROOT / "perdure" / "protocols" / "threadprotocol" / "threadprotocol.mjs"
APP = "tests.integration.chat_agents:app"


def new_chat() -> str:
    """The id of a chat, as the SDK draws one: no UUID."""
    return uuid.uuid4().hex[:16]


def script(name: str, *items: Any) -> str:
    """An input that says what is answered."""
    return json.dumps({"name": name, "script": list(items)})


def calls(*made: tuple[str, Mapping[str, JSONValue]], **more: Any) -> dict[str, Any]:
    """An answer with calls."""
    return {"calls": [{"tool": tool, "arguments": arguments} for tool, arguments in made], **more}


async def chatted(url: str, chat: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the real client shows and sends, once it has done these steps; see `tests/clients/vercel/chat.mjs`."""
    given = {"api": f"{url}/api/chat", "id": chat, "threadprotocol": READER.as_uri(), "steps": list(steps), **more}
    return cast("dict[str, Any]", await run_script(VERCEL, "chat.mjs", given))


def send(text: str, **more: Any) -> dict[str, Any]:
    """The step that sends a message."""
    return {"op": "send", "text": text, **more}


def shown(result: dict[str, Any]) -> list[str]:
    """The texts that the user sees, one per message."""
    return [
        "".join(part["text"] for part in message["parts"] if part["type"] == "text") for message in result["messages"]
    ]


def states(result: dict[str, Any]) -> list[tuple[str, str]]:
    """The tools of the last message with their states."""
    parts = result["messages"][-1]["parts"]
    return [(part["type"].removeprefix("tool-"), part["state"]) for part in parts if part["type"].startswith("tool-")]


def session_of(result: dict[str, Any]) -> str:
    """The session that the chat is."""
    return next(
        r["headers"]["perdure-session"] for r in result["requests"] if "perdure-session" in r.get("headers", {})
    )


async def thread_of(client: httpx.AsyncClient, session: str) -> list[str]:
    """The canonical form of each action of the session's current thread."""
    thread = read_thread(checked(await client.get(f"/sessions/{session}/thread")))
    return [canonical_bytes(action).decode() for action in thread.actions]


async def check_same(api: ApiProcess, result: dict[str, Any], *, skipped: int = 0) -> list[dict[str, Any]]:
    """See that the client has the server's thread, byte for byte.

    Args:
        api: the server.
        result: what the client did.
        skipped: actions of the thread that belong to runs before.
    """
    async with api.client() as client:
        served = await thread_of(client, session_of(result))
    told = next(request["actions"] for request in reversed(result["requests"]) if request.get("actions"))
    assert told == served[skipped:]
    return [json.loads(action) for action in served]
