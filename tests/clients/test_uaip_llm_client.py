"""A model buys something from a UAIP server, which it has never heard of: by the loop of the first UAIP client."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.upp.messages import ToolResultMessage
from perdure.upp.provider import BoundLLMModel
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.anthropic import anthropic
from perdure.upp.providers.openai import openai
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from perdure.upp.tool_call import ToolCall
from tests.clients.uaip_llm_client import CONNECT, DISCONNECT, MAX_TURNS, SEARCH, Mode, UaipLlmClient
from tests.clients.vendor_server import Reply, VendorServer, json_reply
from tests.conformance.conftest import server, stack
from tests.conformance.uaip_server import UaipServer

__all__ = ["server", "stack"]

FIXTURES = Path(__file__).parent / "fixtures"
WISH = "Buy me two pens."
BOUGHT = "Two pens are paid for."
PURCHASE: list[ToolCall] = [
    call(SEARCH, search_query="things"),
    call(CONNECT, server_name="store"),
    call("pay"),
    call("search", query="pen", limit=1),
    call("transition_stage", target_stage="select"),
    call("add_to_cart", product_id="pen-0", quantity=2),
    call("transition_stage", target_stage="checkout"),
    call("provide_state", **{"user.email": "a@b.example"}),
    call("transition_stage", target_stage="checkout"),
    call("pay", method="invoice"),
    call("transition_stage", target_stage="done"),
    call(DISCONNECT),
]
"""One mistake is in it, the third call, and one thing that is not known before it is asked for, the prerequisite."""
ACTIONS = [
    ("handshake", 200),
    ("method_call", 422),
    ("method_call", 200),
    ("stage_transition", 200),
    ("method_call", 200),
    ("stage_transition", 422),
    ("state_input", 200),
    ("stage_transition", 200),
    ("method_call", 200),
    ("stage_transition", 200),
]
BROWSE = ["read", "where", "search", "nothing", "nothing_later", "increment", "write", "fail"]
SELECT = ["read", "where", "add_to_cart", "sign_in", "mark"]
ALWAYS = ["transition_stage", "terminate_session", DISCONNECT]
OFFERED = [
    [SEARCH],
    [SEARCH, CONNECT],
    *[[*BROWSE, *ALWAYS]] * 3,
    *[[*SELECT, *ALWAYS]] * 2,
    ["provide_state", DISCONNECT],
    [*SELECT, *ALWAYS],
    *[["read", "where", "pay", *ALWAYS]] * 2,
    ["read", "where", "terminate_session", DISCONNECT],
    [SEARCH, CONNECT],
]
"""The tools of each turn: those of the reply before it, and nothing of an earlier one."""


@pytest.fixture
async def http(server: UaipServer) -> AsyncGenerator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client.http


def model(*script: ScriptedAnswer) -> BoundLLMModel:
    return scripted(list(script)).bind()


def told(client: UaipLlmClient) -> list[str]:
    """What the model was told of its calls, in order."""
    batches = [message for message in client.messages if isinstance(message, ToolResultMessage)]
    return [str(result.result) for batch in batches for result in batch.results]


@pytest.mark.parametrize("compat", [False, True], ids=["details", "compat"])
async def test_a_model_completes_a_purchase(http: httpx.AsyncClient, compat: bool) -> None:
    """With the tools of each stage only, past a mistake and past a missing prerequisite."""
    client = UaipLlmClient(http, model(*PURCHASE, BOUGHT), compat=compat)
    assert await client.ask(WISH) == BOUGHT
    assert client.mode is Mode.USER
    assert client.actions == [(action, 200 if compat else status) for action, status in ACTIONS]
    assert client.offered == OFFERED
    said = told(client)
    assert "'pay'" in said[2]
    assert "user.email" in said[6]
    assert "cart.items" not in said[6]
    paid = {"items": [{"product_id": "pen-0", "quantity": 2}], "by": "a@b.example", "method": "invoice"}
    assert json.loads(said[9].partition("Result:\n")[2]) == paid


async def test_a_session_that_the_model_ends_is_over(http: httpx.AsyncClient) -> None:
    """It is told so, and then has nothing to call but the way out."""
    script = [*PURCHASE[:2], call("terminate_session", reason="no wish"), call("search", query="pen"), "Nothing."]
    client = UaipLlmClient(http, model(*script))
    assert await client.ask(WISH) == "Nothing."
    assert client.actions == [("handshake", 200), ("terminate_session", 200), ("method_call", 404)]
    assert client.offered[3] == [DISCONNECT]
    assert told(client)[3] == "Session not found"


async def test_other_statuses_than_200_end_the_first_client(http: httpx.AsyncClient) -> None:
    """Also with `compat=reference`, for what the request itself lacks: a session that is over."""
    script = [*PURCHASE[:2], call("terminate_session"), call("search", query="pen"), "Nothing."]
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        await UaipLlmClient(http, model(*script), compat=True).ask(WISH)


async def test_two_calls_of_one_answer_are_two_actions_in_order(http: httpx.AsyncClient) -> None:
    script = [*PURCHASE[:2], [call("increment"), call("increment"), call("transition_stage", target_stage="select")]]
    client = UaipLlmClient(http, model(*script, "Done."))
    await client.ask(WISH)
    assert [text.partition("Result:\n")[2] for text in told(client)[2:4]] == ["1", "2"]
    assert client.offered[3] == [*SELECT, *ALWAYS]


async def test_the_loop_has_an_end(http: httpx.AsyncClient) -> None:
    client = UaipLlmClient(http, model(*[call(SEARCH, search_query="pens")] * (MAX_TURNS + 1)))
    with pytest.raises(TimeoutError, match=f"{MAX_TURNS} turns"):
        await client.ask(WISH)
    assert len(client.offered) == MAX_TURNS


@dataclass(frozen=True)
class Vendor:
    """A vendor's API.

    Attributes:
        bound: one of its models.
        reply: its answer with a call, or with a text.
        names: of the tools of a request's body.
        results: what a request's body says came of the calls, in order.
    """

    bound: BoundLLMModel
    reply: Callable[[ToolCall | str, int], Reply]
    names: Callable[[Any], list[str]]
    results: Callable[[Any], list[str]]


def _of_anthropic(given: ToolCall | str, number: int) -> Reply:
    message = json.loads((FIXTURES / "anthropic" / "tools.json").read_text())
    if isinstance(given, str):
        return json_reply({**message, "stop_reason": "end_turn", "content": [{"type": "text", "text": given}]})
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": given.tool_name, "input": given.arguments}
    return json_reply({**message, "content": [block]})


def _of_completions(given: ToolCall | str, number: int) -> Reply:
    completion = json.loads((FIXTURES / "openai_completions" / "tools.json").read_text())
    choice = completion["choices"][0]
    if isinstance(given, str):
        choice |= {"finish_reason": "stop", "message": {"role": "assistant", "content": given}}
        return json_reply(completion)
    function = {"name": given.tool_name, "arguments": json.dumps(given.arguments)}
    calls = [{"id": f"call_{number}", "type": "function", "function": function}]
    choice["message"] = {"role": "assistant", "content": None, "tool_calls": calls}
    return json_reply(completion)


def _results_of_anthropic(body: Any) -> list[str]:
    blocks = [
        block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    return [_text(block["content"]) for block in blocks if block["type"] == "tool_result"]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


VENDORS = {
    "anthropic": Vendor(
        anthropic("claude-sonnet-4-6").bind(),
        _of_anthropic,
        lambda body: [tool["name"] for tool in body["tools"]],
        _results_of_anthropic,
    ),
    "openai": Vendor(
        openai("gpt-5-mini", api="completions").bind(),
        _of_completions,
        lambda body: [tool["function"]["name"] for tool in body["tools"]],
        lambda body: [_text(message["content"]) for message in body["messages"] if message["role"] == "tool"],
    ),
}


@pytest.mark.parametrize("name", VENDORS)
async def test_a_vendors_model_completes_a_purchase(http: httpx.AsyncClient, vendor: VendorServer, name: str) -> None:
    """Each request to the vendor has the tools of the moment, and what came of every call."""
    of = VENDORS[name]
    vendor.replies(*(of.reply(given, number) for number, given in enumerate([*PURCHASE, BOUGHT])))
    config = ProviderConfig(api_key="sk-of-the-test-0123456789", base_url=vendor.url)
    client = UaipLlmClient(http, of.bound, config=config)
    assert await client.ask(WISH) == BOUGHT
    assert client.actions == ACTIONS
    bodies = [request.json() for request in vendor.received]
    assert [of.names(body) for body in bodies] == OFFERED
    assert of.results(bodies[-1]) == told(client)
