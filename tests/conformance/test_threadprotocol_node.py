"""ThreadProtocol's checks 40 to 44 for `threadprotocol.mjs`: of the same chunks Python and Node make the same bytes."""

from __future__ import annotations

import json
import random
from typing import Any, cast

import pytest

from perdure.protocols.threadprotocol.canonical import canonical_bytes
from perdure.protocols.threadprotocol.from_stream import StreamReader
from perdure.protocols.threadprotocol.models import AnyAction
from perdure.protocols.threadprotocol.moments import normal_moment
from perdure.protocols.threadprotocol.problem import InvalidThread
from perdure.protocols.threadprotocol.to_stream import stream_chunks
from perdure.upp.json_value import JSONObject, sha256_hex
from tests.clients.node import run_script
from tests.integration.chat_place import READER, VERCEL
from tests.unit.protocols.threadprotocol import test_stream as streams
from tests.unit.protocols.threadprotocol.threads import FRED, START, calls, returns, says, thinks, thread, user

Case = dict[str, Any]


async def in_node(*cases: Case, **more: Any) -> dict[str, Any]:
    """What Node makes of cases."""
    given = {"threadprotocol": READER.as_uri(), "agentId": FRED, "notBefore": START, "cases": list(cases), **more}
    return cast("dict[str, Any]", await run_script(VERCEL, "read.mjs", given))


def in_python(case: Case) -> list[str] | None:
    """The canonical form of each action; None if the stream is refused."""
    reader = StreamReader(agent_id=FRED, not_before=START)
    try:
        if case.get("asked"):
            reader.take_user(case["asked"])
        for chunk in case["chunks"]:
            reader.take(json.loads(json.dumps(chunk)))
        return [canonical(action) for action in reader.actions()]
    except InvalidThread:
        return None


def canonical(action: AnyAction) -> str:
    return canonical_bytes(action).decode()


async def check_alike(*cases: Case) -> None:
    """See that both make the same of each case, or refuse it both."""
    found = (await in_node(*cases))["read"]
    for case, node in zip(cases, found, strict=True):
        python = in_python(case)
        assert (node if isinstance(node, list) else None) == python, (node, case)


def asks(*more: Any, call_id: str = "c1") -> list[JSONObject]:
    head: JSONObject = {"toolCallId": call_id, "toolName": "search"}
    return [{"type": "tool-input-start", **head}, {"type": "tool-input-available", **head, "input": {"q": 1.0}}, *more]


def gets(kind: str, call_id: str = "c1", **more: Any) -> JSONObject:
    return {"type": f"tool-output-{kind}", "toolCallId": call_id, **more}


END: JSONObject = {"type": "finish", "finishReason": "stop"}
REFUSED_INPUT: JSONObject = {
    "type": "tool-input-error", "toolCallId": "c1", "toolName": "search", "input": '{"q', "errorText": "no JSON",
}  # fmt: skip
APPROVAL: list[JSONObject] = [
    {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"},
    {"type": "tool-approval-response", "approvalId": "a1", "approved": False, "reason": "too dear"},
    gets("denied"),
]


async def test_check_40_with_the_servers_notes_node_makes_the_servers_bytes() -> None:
    """Of actions of every kind, also those that a stream tells otherwise."""
    served = thread(
        user(), thinks(signature=" s= "), says("Let me 😀", usage={"input_tokens": 1, "output_tokens": 2}), calls(),
        calls("c2", args="5"), returns(content={"large": 12345678901234567890, "one": 1.0}), returns("c2", status="error", content=[1]),
        {"action_type": "system.tool_grant", "data": {"agent_id": FRED}}, says([{"type": "text", "text": "a"}], finish_reason="stop"),
    ).actions  # fmt: skip
    case = {"asked": streams.ASKED, "chunks": stream_chunks(served, "m1", user_ref="u1")}
    (told,) = (await in_node(case))["read"]
    assert told == [canonical(action) for action in served] == in_python(case)


async def test_check_41_statuses() -> None:
    await check_alike(
        {"chunks": [REFUSED_INPUT, gets("error", errorText="again"), END]},
        {"chunks": [*asks(gets("error", errorText="down")), END]},
        {"chunks": [*asks(gets("denied")), END]},
        {"chunks": [*asks(*APPROVAL), END]},
        {"chunks": [*asks(gets("available", output=1, preliminary=True), gets("available", output=None)), END]},
    )


async def test_check_42_a_bare_error() -> None:
    error: JSONObject = {"type": "error", "errorText": "boom"}
    await check_alike(
        {"chunks": [error, END]},
        {"chunks": [*asks(), error, END]},
        {"chunks": [*asks(), *asks(call_id="c2"), error, END]},
        {"chunks": [*asks(gets("available", output=1)), error, END]},
    )


async def test_check_43_data_resets_and_aborts() -> None:
    data: list[JSONObject] = [
        {"type": "data-tool_grant", "id": "d1", "data": {"x": 1}},
        {"type": "data-weather-map", "data": None},
        {"type": "data-gone", "data": 1, "transient": True},
        {"type": "data-tp-other", "data": 1},
        {"type": "data-odd name", "data": 1},
    ]
    step: list[JSONObject] = [{"type": "start-step"}, *streams.text("a", "wrong"), *asks(), {"type": "reset-step"}]
    drop: JSONObject = {"type": "data-tp-drop", "data": {"action_type": "assistant_message", "ref": "a"}}
    shown: JSONObject = {
        "type": "file", "url": "/api/content/x", "mediaType": "image/png",
        "providerMetadata": {"threadprotocol": {"shown_only": True}},
    }  # fmt: skip
    steering: JSONObject = {"type": "steering-message", "id": "u2", "parts": [{"type": "text", "text": "and?"}]}
    await check_alike(
        {"chunks": [*data, END]},
        {"chunks": [*step, *streams.text("b", "right"), END]},
        {"chunks": [*streams.text("a", "no"), drop, *streams.text("b", "yes"), END]},
        {"chunks": [*streams.text("a", "whole"), *asks(), *streams.text("b", "ha", ends=False), {"type": "abort"}]},
        {
            "chunks": [
                *streams.text("a", "whole"),
                *asks(gets("available", output=1)),
                *streams.text("b", "h", ends=False),
            ]
        },
        {"chunks": [*asks(shown, gets("available", output=1)), steering, END]},
    )


async def test_check_44_where_the_deltas_are_cut_makes_no_difference() -> None:
    """Neither in Node nor in Python; half a pair of surrogates in one delta and half in the next is a character."""
    drawn = random.Random(44)  # the same each time
    text = "Grüße 😀 und e\u0301 mehr\u2028"
    units = [text.encode("utf-16-le")[place : place + 2] for place in range(0, len(text.encode("utf-16-le")), 2)]
    cases: list[Case] = []
    for _ in range(20):
        places = sorted(drawn.sample(range(1, len(units)), 4))
        pieces = [units[a:b] for a, b in zip([0, *places], [*places, len(units)], strict=True)]
        deltas = [b"".join(piece).decode("utf-16-le", "surrogatepass") for piece in pieces]
        cases.append({"asked": streams.ASKED, "chunks": [*streams.text("a", *deltas), END]})
    found = (await in_node(*cases))["read"]
    assert all(told == found[0] for told in found)
    assert found[0] == in_python({"asked": streams.ASKED, "chunks": [*streams.text("a", text), END]})


@pytest.mark.parametrize("named", [True, False])
async def test_check_44_files_and_metadata_are_read_alike(named: bool) -> None:
    name = {"filename": "a.pdf"} if named else {}
    parts: list[Any] = [
        {"type": "text", "text": "see"},
        {"type": "file", "url": "https://x/a.pdf", "mediaType": "application/pdf", **name},
        {"type": "file", "url": "data:image/png;base64,AP/+", "mediaType": "image/png"},
    ]
    metadata = {"pydantic_ai": {"timestamp": "2025-01-15T12:00:00.98765+02:00"}}
    reasoning: list[Any] = [
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "hm"},
        {"type": "reasoning-end", "id": "r", "providerMetadata": {"openai": {"itemId": "t1", "signature": "s="}}},
    ]
    source = {"type": "source-url", "sourceId": "s1", "url": "https://x"}
    end = {**END, "messageMetadata": metadata}
    await check_alike({"asked": {"id": "u1", "role": "user", "parts": parts}, "chunks": [*reasoning, source, end]})


async def test_check_44_what_is_no_stream_is_refused_by_both() -> None:
    await check_alike(*({"chunks": [chunk]} for chunk in streams.UNSOUND))


async def test_check_44_canonical_text_and_moments_are_those_of_python() -> None:
    values: list[Any] = [
        {"b": 1.0, "a": [1e21, 1e-7, 123456789.5, -0.0, "\u2028é😀\u0007"], "ä": None, "😀": 1, "\ufb33": 2}
    ]
    moments = ["2025-01-15T12:00:00.98765+02:00", "0001-01-01T00:00:00Z", "2025-01-15T10:00:00-00:30"]
    found = await in_node(values=values, moments=moments)
    assert found["moments"] == [normal_moment(text) for text in moments]
    action = thread({"action_type": "system.x", "data": values[0]}).actions[0]
    told = json.loads(canonical(action))["data"]
    assert found["texts"][0] in canonical(action), told
    assert found["hashes"] == [sha256_hex(text.encode()) for text in found["texts"]]
