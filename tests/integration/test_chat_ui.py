"""The chat door with the AI SDK's own client, in Node: durable runs, told once, resumed, approved, stopped, answered anew."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.chat_place import (
    APP,
    calls,
    chatted,
    check_same,
    new_chat,
    script,
    send,
    session_of,
    shown,
    states,
)
from tests.integration.stack import Stack, WorkerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    """Serves the chat's agents."""
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def api(stack: Stack, worker: WorkerProcess) -> Iterator[ApiProcess]:
    """A server that no test kills."""
    process = ApiProcess(stack).wait_ready()
    yield process
    process.kill()


TELLER = {"agent": "teller"}


async def test_a_chat_goes_on_in_its_session(api: ApiProcess) -> None:
    """Each message is a run of one session, whose thread the client makes too."""
    result = await chatted(api.url, new_chat(), send("one"), send("two"), body=TELLER)
    assert shown(result) == ["one", "You said: one", "two", "You said: two"]
    assert (result["status"], result["errors"]) == ("ready", [])
    assert all(request["done"] for request in result["requests"])
    first, second = result["requests"]
    assert first["headers"]["x-vercel-ai-ui-message-stream"] == "v1"
    assert first["headers"]["perdure-session"] == second["headers"]["perdure-session"]
    assert [message["id"] for message in result["messages"]][1::2] == [
        r["headers"]["perdure-run"] for r in (first, second)
    ]
    actions = await check_same(api, result, skipped=len(first["actions"]))
    assert [action["action_type"] for action in actions] == [
        *("user_message", "system.agent_join", "assistant_message", "user_message", "assistant_message")
    ]


async def test_thinking_text_and_tools_give_the_servers_thread(api: ApiProcess) -> None:
    """Two tools at once, one of which fails, between thinking and text: the same canonical bytes in Node."""
    both = calls(("look", {"at": "sea"}), ("fail", {"why": "no"}), text="Let me look", reasoning="hm, hm")
    said = script(uuid.uuid4().hex, both, {"text": "Done 😀", "reasoning": "so"})
    result = await chatted(api.url, new_chat(), send(said), body=TELLER)
    assert shown(result)[-1] == "Let me lookDone 😀"
    assert states(result) == [("look", "output-available"), ("fail", "output-error")]
    actions = await check_same(api, result)
    assert [action["action_type"] for action in actions] == [
        *("user_message", "system.agent_join", "thinking", "assistant_message", "tool_call", "tool_call"),
        *("tool_return", "tool_return", "thinking", "assistant_message"),
    ]
    notes = [part["data"]["sequence"] for part in result["transient"] if part["type"] == "data-tp-action"]
    assert sorted(notes) == list(range(1, len(actions) + 1))


async def test_a_strategys_own_thoughts_are_shown_and_are_no_action(api: ApiProcess) -> None:
    """What react reasons is told as reasoning, and the client leaves it out as the server does."""
    said = script(uuid.uuid4().hex, "I should answer.", "The answer.", "Yes.", "The answer.")
    result = await chatted(api.url, new_chat(), send(said), body={"agent": "thinker"})
    assert any(part["type"] == "reasoning" for part in result["messages"][-1]["parts"]), result["messages"][-1]
    actions = await check_same(api, result)
    assert "thinking" not in [action["action_type"] for action in actions]


async def test_approvals_and_the_clients_tools_go_on_in_the_same_message(api: ApiProcess, stack: Stack) -> None:
    """A call that is approved runs, one that is rejected does not, the client's own gets its result."""
    name = uuid.uuid4().hex
    said = script(
        name, calls(("pay", {"name": name, "amount": 5})), calls(("pay", {"name": name, "amount": 6})),
        calls(("pick", {"of": "fruit"})), calls(("pick", {"of": "sweets"})), "fine",
    )  # fmt: skip
    steps: list[dict[str, Any]] = [
        {"op": "approve", "approved": True},
        {"op": "approve", "approved": False, "reason": "too dear"},
        {"op": "output", "tool": "pick", "output": {"fruit": "apple"}},
        {"op": "output", "tool": "pick", "errorText": "there are none"},
    ]
    result = await chatted(api.url, new_chat(), send(said), *steps, body=TELLER)
    assert (result["status"], result["errors"]) == ("ready", [])
    assert len(result["messages"]) == 2
    assert states(result) == [
        ("pay", "output-available"), ("pay", "output-denied"), ("pick", "output-available"), ("pick", "output-error"),
    ]  # fmt: skip
    assert shown(result)[-1] == "fine"
    assert [entry["amount"] for entry in stack.entries(name, "tool")] == [5]
    actions = await check_same(api, result)
    returns = [action["status"] for action in actions if action["action_type"] == "tool_return"]
    assert returns == ["success", "error", "success", "error"]
    grants = [action["data"] for action in actions if action["action_type"] == "system.tool_grant"]
    assert [grant["tool_name"] for grant in grants] == ["pay"]


async def test_calls_that_wait_at_once_are_answered_at_once(api: ApiProcess, stack: Stack) -> None:
    """Parallel ones rest together, sequential ones one after the other; ids that a vendor uses again are kept apart."""
    name = uuid.uuid4().hex
    both = [{"id": "same", "tool": "pay", "arguments": {"name": name, "amount": amount}} for amount in (1, 2)]
    alone = [("pay_alone", {"name": name, "amount": amount}) for amount in (3, 4)]
    said = script(name, {"calls": both}, calls(*alone), "paid")
    steps = [{"op": "approve", "approved": True}] * 3
    result = await chatted(api.url, new_chat(), send(said), *steps, body=TELLER)
    assert (shown(result)[-1], result["errors"]) == ("paid", [])
    assert len(result["requests"]) == 4
    assert sorted(entry["amount"] for entry in stack.entries(name, "tool")) == [1, 2, 3, 4]
    await check_same(api, result)


async def test_a_cut_connection_is_resumed_and_nothing_is_shown_twice(api: ApiProcess) -> None:
    """The run goes on; the client is told its message again from the beginning, in place of what it had."""
    said = json.dumps({"name": uuid.uuid4().hex, "words": 60})
    result = await chatted(
        api.url,
        new_chat(),
        {"op": "cut", "after": 12},
        send(said),
        {"op": "resume"},
        body={"agent": "slow"},
        namesMessage=True,
    )
    assert shown(result)[-1] == "".join(f"word{number} " for number in range(60))
    assert (len(result["messages"]), result["status"]) == (2, "ready")
    post, get = result["requests"]
    assert (post["done"], get["method"], get["status"], get["done"]) == (False, "GET", 200, True)
    await check_same(api, result)


async def test_a_run_that_ended_meanwhile_is_told_to_who_asks_for_its_message(api: ApiProcess) -> None:
    """Without a run there is no stream; with the message's id it is told again."""
    chat = new_chat()
    result = await chatted(api.url, chat, send("hello"), {"op": "resume"}, body=TELLER)
    assert [request["status"] for request in result["requests"]] == [200, 204]
    run = result["messages"][-1]["id"]
    async with api.client() as client:
        again = await client.get(f"/chat/{chat}/stream", params={"message": run})
        nothing = await client.get(f"/chat/{chat}/stream", params={"message": "nobody"})
        unknown = await client.get(f"/chat/{new_chat()}/stream")
    chunks = [json.loads(line[6:]) for line in again.text.splitlines() if line.startswith("data: {")]
    assert chunks == result["requests"][0]["chunks"]
    assert again.text.endswith("data: [DONE]\n\n")
    assert (nothing.status_code, unknown.status_code) == (204, 204)


async def test_a_run_that_has_not_begun_is_followed(api: ApiProcess) -> None:
    """A page that is loaded anew right after a message was sent, while nobody has taken the message yet."""
    chat = new_chat()
    result = await chatted(api.url, chat, send("hello"), body=TELLER)
    heard: list[str] = []
    async with api.client() as client:
        checked(await client.post(f"/sessions/{session_of(result)}/pause"))
        said = {
            "id": chat,
            "agent": TELLER["agent"],
            "messages": [{"id": "m2", "role": "user", "parts": [{"type": "text", "text": "there"}]}],
        }
        async with client.stream("POST", "/chat", json=said) as asked:
            assert asked.status_code == 200
        async with client.stream("GET", f"/chat/{chat}/stream") as told:
            assert told.status_code == 200
            assert told.headers["perdure-run"] == asked.headers["perdure-run"]
            checked(await client.post(f"/sessions/{session_of(result)}/resume"))
            heard += [line async for line in told.aiter_lines()]
    assert heard[-2] == "data: [DONE]"
    assert any('"text-delta"' in line for line in heard)


async def test_a_message_is_answered_once_more_on_a_branch(api: ApiProcess, stack: Stack) -> None:
    """Regenerated and edited messages take the place of what was said from them on; the model sees only what stays."""
    result = await chatted(
        api.url, new_chat(), send("one"), send("two"), {"op": "regenerate"},
        {"op": "edit", "index": 2, "text": "three"}, send("four"), {"op": "edit", "index": 0, "text": "zero"}, body=TELLER,
    )  # fmt: skip
    assert shown(result) == ["zero", "You said: zero"]
    assert result["errors"] == []
    async with api.client() as client:
        threads = checked(await client.get(f"/sessions/{session_of(result)}/threads"))["threads"]
        page = checked(await client.get(f"/chat/{session_of(result)}"))
    assert len(threads) == 4
    assert [_texts(message) for message in page["messages"]] == shown(result)
    assert [message["id"] for message in page["messages"]] == [message["id"] for message in result["messages"]]
    asked = stack.entries("four", "asked")
    assert [entry["history"] for entry in asked][-1] == ["one", "You said: one", "three", "You said: three", "four"]


def _texts(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


async def test_a_page_that_is_loaded_anew_shows_the_chat_and_follows_what_runs(api: ApiProcess) -> None:
    """The messages come from the server, the run that waits from its stream; then it is answered."""
    name = uuid.uuid4().hex
    said = script(
        name, calls(("look", {"at": "sky"}), text="Looking"), calls(("pay", {"name": name, "amount": 7})), "ok"
    )
    result = await chatted(
        api.url,
        new_chat(),
        send("hello"),
        send(said),
        {"op": "reload"},
        {"op": "approve", "approved": True},
        body=TELLER,
    )
    assert shown(result) == ["hello", "You said: hello", said, "Lookingok"]
    assert states(result) == [("look", "output-available"), ("pay", "output-available")]
    assert (result["status"], result["errors"]) == ("ready", [])


async def test_a_run_is_stopped_and_what_it_said_stays(api: ApiProcess) -> None:
    """The stream ends with an abort, the thread keeps what was said, and the chat goes on."""
    chat, said = new_chat(), json.dumps({"name": uuid.uuid4().hex, "words": 4000})
    stop = {"op": "call", "path": "/stop", "method": "POST"}
    result = await chatted(
        api.url, chat, {"op": "cut", "after": 12}, send(said), stop, {"op": "resume"}, body={"agent": "slow"}
    )
    assert result["requests"][1]["status"] == 200
    assert json.loads(result["requests"][1]["body"])["state"] == "cancelled"
    async with api.client() as client:
        run = result["requests"][0]["headers"]["perdure-run"]
        told = await client.get(f"/chat/{chat}/stream", params={"message": run})
        page = checked(await client.get(f"/chat/{chat}"))
    chunks = [json.loads(line[6:]) for line in told.text.splitlines() if line.startswith("data: {")]
    assert chunks[-1] == {"type": "abort", "reason": "cancelled"}
    deltas = "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")
    assert deltas.startswith("word0 word1 ")
    assert _texts(page["messages"][-1]) == deltas


async def test_a_run_that_fails_is_an_error_and_no_part_of_the_thread(api: ApiProcess) -> None:
    """The client shows an error; asked again it begins anew."""
    bad = json.dumps({"name": uuid.uuid4().hex, "script": []})
    result = await chatted(api.url, new_chat(), send(bad), body=TELLER)
    assert result["status"] == "error"
    assert result["errors"] != []
    chunks = result["requests"][0]["chunks"]
    assert "error" in [chunk["type"] for chunk in chunks]


async def test_the_same_message_is_the_same_run(api: ApiProcess, stack: Stack) -> None:
    """A request that is sent again is told the same stream, and the model is asked once."""
    said = uuid.uuid4().hex
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": said}]}
    body = {"id": new_chat(), "agent": "teller", "message": message}
    async with api.client() as client:
        first, second = [await client.post("/chat", json=body) for _ in range(2)]
    assert first.text == second.text
    assert len(stack.entries(said, "asked")) == 1


async def test_a_chat_that_began_elsewhere_brings_what_was_said(api: ApiProcess, stack: Stack) -> None:
    """A new session begins with the client's messages, tool results among them."""
    said = uuid.uuid4().hex
    done = {"type": "tool-look", "toolCallId": "c1", "state": "output-available", "input": {"at": "x"}, "output": 1}
    messages: list[dict[str, Any]] = [
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "before"}]},
        {"id": "a1", "role": "assistant", "parts": [{"type": "step-start"}, done, {"type": "step-start"}, {"type": "text", "text": "seen"}]},
        {"id": "u2", "role": "user", "parts": [{"type": "text", "text": said}]},
    ]  # fmt: skip
    async with api.client() as client:
        told = await client.post("/chat", json={"id": new_chat(), "agent": "teller", "messages": messages})
        assert told.status_code == 200
    assert f"You said: {said}" in "".join(
        json.loads(line[6:]).get("delta", "") for line in told.text.splitlines() if line.startswith("data: {")
    )
    assert stack.entries(said, "asked")[0]["history"] == ["before", "", "1", "seen", said]


async def test_files_come_with_the_message(api: ApiProcess) -> None:
    """A small and a large image: the large one is stored apart, and the client still makes the server's bytes."""
    small = {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": "data:image/png;base64,AP/+"}
    large = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64," + "AAAA" * 8000}
    result = await chatted(api.url, new_chat(), send("see", files=[small, large]), body=TELLER)
    assert result["errors"] == []
    actions = await check_same(api, result)
    parts = actions[0]["content"]
    assert parts[0] == {"type": "image", "image_base64": "AP/+", "media_type": "image/png"}
    assert parts[1]["image_url"].startswith("/api/content/")


async def test_a_server_that_is_killed_in_the_middle_of_deltas_loses_nothing(api: ApiProcess, stack: Stack) -> None:
    """Another process tells the whole message, each word once; the model was asked once."""
    name, chat = uuid.uuid4().hex, new_chat()
    said = json.dumps({"name": name, "words": 60})
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": said}]}
    run = await _hear_until_killed(ApiProcess(stack).wait_ready(), {"id": chat, "agent": "slow", "message": message})
    async with api.client() as client:
        told = await client.get(f"/chat/{chat}/stream", params={"message": run})
    chunks = [json.loads(line[6:]) for line in told.text.splitlines() if line.startswith("data: {")]
    deltas = "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")
    assert deltas == "".join(f"word{number} " for number in range(60))
    assert chunks[-1]["type"] == "finish"
    assert len(stack.entries(name, "model")) == 1


async def _hear_until_killed(killed: ApiProcess, body: dict[str, Any]) -> str:
    """The run of a stream whose server is killed behind its fifth delta."""
    run, heard = "", 0
    with contextlib.suppress(httpx.TransportError):
        async with killed.client() as client, client.stream("POST", "/chat", json=body) as stream:
            run = stream.headers["perdure-run"]
            async for line in stream.aiter_lines():
                heard += "text-delta" in line
                if heard == 5:
                    killed.kill()
    assert heard >= 5
    return run


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, "invalid_input"),
    ({"id": "", "messages": []}, 422, "invalid_input"),
    ({"id": "x", "messages": []}, 422, "invalid_input"),
    ({"id": "x", "messages": [{"role": "system", "parts": []}]}, 422, "invalid_input"),
    ({"id": "x", "messages": [{"role": "user"}]}, 422, "invalid_thread"),
    ({"id": "x", "messages": [{"role": "user", "parts": []}]}, 422, "invalid_thread"),
    ({"id": "x", "messages": [{"role": "assistant", "id": "a", "parts": []}]}, 409, "unknown_run"),
    ({"id": "x", "trigger": "resume-stream", "messages": [{"role": "user", "parts": []}]}, 422, "invalid_input"),
    ({"id": "x", "agent": "nobody", "messages": [{"role": "user", "parts": [{"type": "text", "text": "a"}]}]}, 404, "unknown_agent"),
    ({"id": "x", "messages": [{"role": "user", "parts": [{"type": "file", "mediaType": "audio/mpeg", "url": "https://x/a.mp3"}]}]}, 422, "invalid_input"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "code"), REFUSED, ids=range(len(REFUSED)))
async def test_what_cannot_be_used_is_refused_in_plain_words(
    api: ApiProcess, body: dict[str, Any], status: int, code: str
) -> None:
    """The problem names what is wrong; nothing is stored."""
    async with api.client() as client:
        assert code_of(await client.post("/chat", json=body), status) == code


async def test_pages_that_are_named_may_chat(stack: Stack, worker: WorkerProcess) -> None:
    """CORS, for the pages of PERDURE_CHAT_ORIGINS; they may read which session and run it is."""
    page, strange = "https://shop.example", "https://evil.example"
    process = ApiProcess(stack, PERDURE_CHAT_ORIGINS=json.dumps([page])).wait_ready()
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    body = {"id": new_chat(), "agent": "teller", "message": message}
    async with process.client() as client:
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        allowed = await client.options("/chat", headers={**asks, "Origin": page})
        refused = await client.options("/chat", headers={**asks, "Origin": strange})
        told = await client.post("/chat", json=body, headers={"Origin": page})
        assert code_of(await client.post("/chat", json=body, headers={"Origin": strange}), 403) == "forbidden_origin"
    process.kill()
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, page)
    assert "access-control-allow-origin" not in refused.headers
    assert "perdure-session" in told.headers["access-control-expose-headers"].lower()


async def test_an_answer_to_nothing_is_refused(api: ApiProcess) -> None:
    """Else a client that answers by itself would ask for ever."""
    chat = new_chat()
    result = await chatted(api.url, chat, send("hello"), body=TELLER)
    async with api.client() as client:
        again = await client.post("/chat", json={"id": chat, "messages": result["messages"]})
        assert code_of(again, 409) == "nothing_answered"
        assert code_of(await client.get(f"/chat/{new_chat()}"), 404) == "unknown_chat"
        assert code_of(await client.post(f"/chat/{new_chat()}/stop"), 404) == "unknown_chat"
        assert checked(await client.post(f"/chat/{chat}/stop"))["state"] == "idle"
