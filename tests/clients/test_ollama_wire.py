"""Ollama over HTTP: what it answers, by its own documentation, becomes UPP's messages."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.upp.content import ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import BytesSource
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest, LLMResponse, LLMStreamResult
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.ollama import ollama
from perdure.upp.stream import StreamEvent
from perdure.upp.tool_call import ToolCall
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, lines_reply

FIXTURES = Path(__file__).parent / "fixtures" / "ollama"
MODEL = ollama("qwen3").bind()
STRUCTURE: JSONObject = {"type": "object", "properties": {"age": {"type": "integer"}}}
TOOL = Tool("weather", "The weather.", {"type": "object"}, run=print)


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def whole(name: str, **message: Any) -> Reply:
    """A documented answer, with other fields in its message."""
    value = json.loads(fixture(name))
    value["message"] |= message
    return json_reply(value)


def lines(*values: JSONObject) -> Reply:
    return lines_reply("".join(json.dumps(value) + "\n" for value in values))


def to(vendor: VendorServer, **fields: Any) -> LLMRequest:
    config = ProviderConfig(base_url=vendor.url, **fields.pop("config", {}))
    return LLMRequest([UserMessage("Hello")], config=config, **fields)


async def complete(vendor: VendorServer, *replies: Reply, **fields: Any) -> LLMResponse:
    vendor.replies(*replies)
    return await MODEL.complete(to(vendor, **fields))


async def stream(vendor: VendorServer, reply: Reply, **fields: Any) -> tuple[list[StreamEvent], LLMResponse]:
    vendor.replies(reply)
    result = MODEL.stream(to(vendor, **fields))
    events = [event async for event in result]
    return events, await result.response()


def deltas(events: list[StreamEvent]) -> list[tuple[str, object]]:
    return [(str(event.type), event.delta.text or event.delta.arguments_json) for event in events]


def content(response: LLMResponse) -> tuple[object, ...]:
    """What must be the same, whichever way an answer came."""
    calls = [(call.tool_name, call.arguments) for call in response.message.tool_calls or ()]
    metadata = {k: v for k, v in (response.message.metadata or {})["ollama"].items() if k != "created_at"}
    return response.message.content, calls, metadata, response.usage, response.stop_reason, response.data


async def test_text(vendor: VendorServer) -> None:
    response = await complete(vendor, json_reply(json.loads(fixture("text.json"))))
    assert response.message.content == [TextBlock("Hello! How are you today?")]
    assert response.message.tool_calls is None
    assert (response.stop_reason, response.data) == ("end_turn", None)
    assert response.usage == TokenUsage(26, 298, 324)
    assert response.message.metadata == {
        "ollama": {
            "model": "llama3.2",
            "created_at": "2023-12-12T14:13:43.416799Z",
            "total_duration": 5191566416,
            "load_duration": 2154458,
            "prompt_eval_duration": 383809000,
            "eval_duration": 4799921000,
        }
    }


async def test_the_request_is_a_post_with_everything_said(vendor: VendorServer) -> None:
    await complete(vendor, whole("text.json"), params={"seed": 1}, system="Be brief.", tools=[TOOL])
    [received] = vendor.received
    assert (received.method, received.path) == ("POST", "/api/chat")
    assert received.json() == {
        "model": "qwen3",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "stream": False,
        "options": {"seed": 1},
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "The weather.", "parameters": {"type": "object"}},
            }
        ],
    }


async def test_no_key_is_needed(vendor: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    await complete(vendor, whole("text.json"))
    assert "authorization" not in vendor.received[0].headers


@pytest.mark.parametrize(("config", "expected"), [({}, "Bearer from-env"), ({"api_key": "own"}, "Bearer own")])
async def test_a_key_is_sent_if_there_is_one(
    config: dict[str, Any], expected: str, vendor: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "from-env")
    await complete(vendor, whole("text.json"), config=config)
    assert vendor.received[0].headers["authorization"] == expected


async def test_the_configurations_headers_win(vendor: VendorServer) -> None:
    await complete(
        vendor, whole("text.json"), config={"api_key": "k", "headers": {"authorization": "Basic x", "X-Own": "1"}}
    )
    assert vendor.received[0].headers["authorization"] == "Basic x"
    assert vendor.received[0].headers["x-own"] == "1"


@pytest.mark.parametrize("path", ["", "/", "/api/chat", "/proxy"])
async def test_an_address_may_have_the_path(path: str, vendor: VendorServer) -> None:
    vendor.replies(whole("text.json"))
    await MODEL.complete(LLMRequest([UserMessage("x")], config=ProviderConfig(base_url=vendor.url + path)))
    assert vendor.received[0].path == {"/proxy": "/proxy/api/chat"}.get(path, "/api/chat")


async def test_a_tool_call(vendor: VendorServer) -> None:
    response = await complete(vendor, whole("tools.json"))
    [call] = response.message.tool_calls or []
    assert (call.tool_name, call.arguments) == ("get_current_weather", {"format": "celsius", "location": "Paris, FR"})
    assert (response.message.content, response.stop_reason) == ([], "tool_use")


async def test_calls_of_two_answers_have_different_ids(vendor: VendorServer) -> None:
    ids = {
        call.tool_call_id
        for _ in range(2)
        for call in (await complete(vendor, whole("tools.json"))).message.tool_calls or ()
    }
    assert len(ids) == 2


async def test_parallel_calls_keep_order_and_given_ids(vendor: VendorServer) -> None:
    calls = [
        {"id": "call_1", "function": {"name": "a", "arguments": {"n": 1}}},
        {"id": "call_1", "function": {"name": "a", "arguments": {"n": 2}}},
        {"function": {"name": "b"}},
    ]
    first, second, third = (await complete(vendor, whole("tools.json", tool_calls=calls))).message.tool_calls or []
    assert first == ToolCall("call_1", "a", {"n": 1})
    assert (second.tool_name, second.arguments, third.tool_name, third.arguments) == ("a", {"n": 2}, "b", {})
    assert len({first.tool_call_id, second.tool_call_id, third.tool_call_id, ""}) == 4


@pytest.mark.parametrize(
    ("given", "arguments"),
    [('{"n": 1}', {"n": 1}), ('{"n":', '{"n":'), ("", {}), (None, {}), ([1], [1]), ("[1]", [1])],
)
async def test_arguments_that_are_no_object_are_kept(given: Any, arguments: Any, vendor: VendorServer) -> None:
    """Some servers behind the same API send text, and small models write text that is no JSON."""
    calls = [{"function": {"name": "a", "arguments": given}}]
    response = await complete(vendor, whole("tools.json", tool_calls=calls))
    assert [call.arguments for call in response.message.tool_calls or ()] == [arguments]


async def test_reasoning_comes_first(vendor: VendorServer) -> None:
    response = await complete(vendor, whole("thinking.json"))
    thought = "Count: s-t-r-a-w-b-e-r-r-y. Three."
    assert response.message.content == [ReasoningBlock(thought), TextBlock("There are three.")]
    assert response.message.text == "There are three."
    own = (response.message.metadata or {})["ollama"]
    assert (own["thinking"], own["done_reason"]) == (thought, "length")
    assert [item["token"] for item in own["logprobs"]] == ["There", " are"]  # type: ignore[index,union-attr,call-overload]


@pytest.mark.parametrize(
    ("reason", "calls", "expected"),
    [
        ("stop", [], "end_turn"),
        ("length", [], "max_tokens"),
        ("stop", [{"function": {"name": "a"}}], "tool_use"),
        (None, [{"function": {"name": "a"}}], "tool_use"),
        ("length", [{"function": {"name": "a"}}], "max_tokens"),
        ("load", [], "load"),
    ],
)
async def test_why_it_stopped(reason: str | None, calls: list[JSONObject], expected: str, vendor: VendorServer) -> None:
    value: Any = {"message": {"content": "", "tool_calls": calls}, "done": True, "done_reason": reason}
    assert (await complete(vendor, json_reply(value))).stop_reason == expected


@pytest.mark.parametrize("message", [{"content": ""}, {"content": None}, {}, {"content": "", "tool_calls": []}])
async def test_an_empty_answer_is_an_answer(message: JSONObject, vendor: VendorServer) -> None:
    response = await complete(vendor, json_reply({"message": message, "done": True, "done_reason": "stop"}))
    assert (response.message.content, response.message.has_tool_calls) == ([], False)
    assert (response.stop_reason, response.usage) == ("end_turn", TokenUsage(0, 0, 0))


async def test_images_in_the_answer(vendor: VendorServer) -> None:
    response = await complete(vendor, whole("image.json", images=["iVBORw==", "/9j/"]))
    assert response.message.images == [
        ImageBlock(BytesSource(b"\x89PNG"), "image/png"),
        ImageBlock(BytesSource(b"\xff\xd8\xff"), "image/jpeg"),
    ]


async def test_a_structured_answer(vendor: VendorServer) -> None:
    response = await complete(vendor, whole("structured.json"), structure=STRUCTURE)
    assert response.data == {"age": 22, "available": False}
    assert vendor.received[0].json()["format"] == STRUCTURE


async def test_text_that_looks_like_data_is_text(vendor: VendorServer) -> None:
    assert (await complete(vendor, whole("structured.json"))).data is None


async def test_a_cut_structured_answer_is_no_data(vendor: VendorServer) -> None:
    with pytest.raises(UPPError, match="no JSON") as caught:
        await complete(vendor, whole("structured.json", content='{"age": 2'), structure=STRUCTURE)
    assert caught.value.code is ErrorCode.INVALID_RESPONSE


async def test_calls_that_nobody_asked_for_come_before_data(vendor: VendorServer) -> None:
    """Ollama reads calls out of the text of models whose template has them, whatever was asked for."""
    response = await complete(vendor, whole("tools.json"), structure=STRUCTURE)
    assert (response.data, response.stop_reason) == (None, "tool_use")


ERRORS = [
    (400, '"qwen3" does not support tools', ErrorCode.INVALID_REQUEST),
    (400, "the input length exceeds the context length", ErrorCode.CONTEXT_LENGTH_EXCEEDED),
    (400, "prompt too long; exceeded max context length by 7 tokens", ErrorCode.CONTEXT_LENGTH_EXCEEDED),
    (500, "context length exceeded", ErrorCode.CONTEXT_LENGTH_EXCEEDED),
    (401, "unauthorized", ErrorCode.AUTHENTICATION_FAILED),
    (403, "cloud models are disabled", ErrorCode.AUTHENTICATION_FAILED),
    (404, "model 'qwen3' not found", ErrorCode.MODEL_NOT_FOUND),
    (429, "too many requests", ErrorCode.RATE_LIMITED),
    (500, "llama runner process has terminated", ErrorCode.PROVIDER_ERROR),
    (502, "cloud model cannot be reached", ErrorCode.PROVIDER_ERROR),
    (503, "server busy, please try again. maximum pending requests exceeded", ErrorCode.PROVIDER_ERROR),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize(("status", "text", "code"), ERRORS, ids=str)
async def test_an_error_has_its_code(
    status: int, text: str, code: ErrorCode, streamed: bool, vendor: VendorServer
) -> None:
    vendor.replies(json_reply({"error": text}, status))
    with pytest.raises(UPPError) as caught:
        await (MODEL.stream(to(vendor)).response() if streamed else MODEL.complete(to(vendor)))
    assert (caught.value.code, caught.value.status_code, caught.value.provider) == (code, status, "ollama")
    assert text in caught.value.message


@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
async def test_a_missing_model_says_how_to_get_it(streamed: bool, vendor: VendorServer) -> None:
    vendor.replies(json_reply({"error": "model 'qwen3' not found"}, 404))
    with pytest.raises(UPPError, match="fetch it with `ollama pull qwen3`"):
        await (MODEL.stream(to(vendor)).response() if streamed else MODEL.complete(to(vendor)))


async def test_no_server_is_a_network_error() -> None:
    with pytest.raises(UPPError) as caught:
        await MODEL.complete(LLMRequest([UserMessage("x")], config=ProviderConfig(base_url="http://127.0.0.1:9")))
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.NETWORK_ERROR, True)


async def test_a_key_is_never_shown(vendor: VendorServer) -> None:
    with pytest.raises(UPPError) as caught:
        await complete(
            vendor, json_reply({"error": "bad key s3cret-0123456789"}, 401), config={"api_key": "s3cret-0123456789"}
        )
    assert "s3cret-0123456789" not in f"{caught.value}{caught.value.to_json()}"


UNFIT: list[Any] = [
    {},
    {"message": "Hello", "done": True},
    {"message": {"content": 7}, "done": True},
    {"message": {"tool_calls": [{}]}, "done": True},
    {"message": {"images": ["no base64"]}, "done": True},
    {"message": {}, "done": True, "eval_count": "many"},
]


@pytest.mark.parametrize("value", UNFIT, ids=str)
@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
async def test_an_answer_of_another_shape_is_invalid(value: Any, streamed: bool, vendor: VendorServer) -> None:
    vendor.replies(lines(value) if streamed else json_reply(value))
    with pytest.raises(UPPError, match=r"cannot be read|not as the vendor documents it: ") as caught:
        await (MODEL.stream(to(vendor)).response() if streamed else MODEL.complete(to(vendor)))
    assert caught.value.code is ErrorCode.INVALID_RESPONSE


async def test_a_whole_answer_without_a_message_is_invalid(vendor: VendorServer) -> None:
    """The last line of a stream may be without one."""
    with pytest.raises(UPPError, match="it has no message"):
        await complete(vendor, json_reply({"message": None, "done": True}))


async def test_an_error_inside_a_good_answer(vendor: VendorServer) -> None:
    with pytest.raises(UPPError, match="out of memory") as caught:
        await complete(vendor, json_reply({"error": "out of memory"}))
    assert caught.value.code is ErrorCode.PROVIDER_ERROR


async def test_a_slow_answer_is_waited_for_and_a_later_one_is_not(vendor: VendorServer) -> None:
    assert (await complete(vendor, whole("text.json").after(0.05))).message.text.startswith("Hello")
    with pytest.raises(UPPError) as caught:
        await complete(vendor, whole("text.json").after(60.0), config={"timeout": timedelta(milliseconds=50)})
    assert caught.value.code is ErrorCode.TIMEOUT


async def test_a_stream_of_text(vendor: VendorServer) -> None:
    events, response = await stream(vendor, lines_reply(fixture("text.ndjson")))
    assert deltas(events) == [
        ("message_start", None),
        ("text_delta", "The"),
        ("text_delta", " sky is "),
        ("text_delta", "naïvely 🌊"),
        ("message_stop", None),
    ]
    assert response.message.content == [TextBlock("The sky is naïvely 🌊")]
    assert (response.usage, response.stop_reason) == (TokenUsage(26, 282, 308), "end_turn")
    assert vendor.received[0].json()["stream"] is True


@pytest.mark.parametrize("piece", [1, 7, 64])
async def test_a_stream_may_come_in_any_pieces(piece: int, vendor: VendorServer) -> None:
    """Lines and characters are cut wherever the network likes."""
    events, response = await stream(vendor, lines_reply(fixture("text.ndjson"), piece=piece))
    assert len(events) == 5
    assert response.message.text == "The sky is naïvely 🌊"


@pytest.mark.parametrize(("name", "as_lines"), [("thinking.json", "thinking.ndjson")])
async def test_a_stream_becomes_the_same_as_a_whole_answer(name: str, as_lines: str, vendor: VendorServer) -> None:
    answer = await complete(vendor, whole(name))
    events, response = await stream(vendor, lines_reply(fixture(as_lines)))
    assert content(response) == content(answer)
    assert deltas(events)[1:-1] == [
        ("reasoning_delta", "Count: s-t-r-a-w-b-e-r-r-y."),
        ("reasoning_delta", " Three."),
        ("text_delta", "There"),
        ("text_delta", " are three."),
    ]


@pytest.mark.parametrize("name", ["text.json", "tools.json", "structured.json", "image.json", "thinking.json"])
async def test_a_whole_answer_as_one_line_is_the_same(name: str, vendor: VendorServer) -> None:
    answer = await complete(vendor, whole(name))
    _, response = await stream(vendor, lines(json.loads(fixture(name))))
    assert content(response) == content(answer)


async def test_calls_in_a_stream_have_the_messages_ids(vendor: VendorServer) -> None:
    events, response = await stream(vendor, lines_reply(fixture("parallel.ndjson")))
    calls = response.message.tool_calls or []
    told = [event for event in events if event.type == "tool_call_delta"]
    assert [(event.index, event.delta.tool_call_id, event.delta.tool_name) for event in told] == [
        (0, calls[0].tool_call_id, "get_temperature"),
        (1, calls[1].tool_call_id, "get_temperature"),
    ]
    assert [json.loads(event.delta.arguments_json or "") for event in told] == [
        {"city": "New York"},
        {"city": "London"},
    ]
    assert calls[0].tool_call_id == "call_x1y2z3w4"
    assert calls[1].tool_call_id not in ("", "call_x1y2z3w4")
    assert response.stop_reason == "tool_use"


async def test_bad_arguments_in_a_stream_are_the_messages(vendor: VendorServer) -> None:
    bad: JSONObject = {"message": {"tool_calls": [{"function": {"name": "a", "arguments": '{"n":'}}]}, "done": True}
    events, response = await stream(vendor, lines(bad))
    assert events[1].delta.arguments_json == '{"n":'
    assert [call.arguments for call in response.message.tool_calls or ()] == ['{"n":']


async def test_images_in_a_stream(vendor: VendorServer) -> None:
    events, response = await stream(vendor, lines({"message": {"images": ["iVBORw=="]}, "done": True}))
    assert (events[1].type, events[1].delta.data) == ("image_delta", b"\x89PNG")
    assert response.message.images == [ImageBlock(BytesSource(b"\x89PNG"), "image/png")]


async def test_a_structured_stream(vendor: VendorServer) -> None:
    _, response = await stream(vendor, lines(json.loads(fixture("structured.json"))), structure=STRUCTURE)
    assert response.data == {"age": 22, "available": False}


async def read_until_it_fails(result: LLMStreamResult) -> tuple[list[StreamEvent], UPPError]:
    events: list[StreamEvent] = []
    try:
        async for event in result:
            events.append(event)  # noqa: PERF401  # what came before the failure counts
    except UPPError as error:
        return events, error
    raise AssertionError("the stream ended without a failure")


async def test_an_error_in_a_stream_ends_it(vendor: VendorServer) -> None:
    vendor.replies(lines_reply(fixture("error.ndjson")))
    events, error = await read_until_it_fails(MODEL.stream(to(vendor)))
    assert deltas(events) == [("message_start", None), ("text_delta", " Yes"), ("text_delta", ".")]
    assert (error.code, error.message) == (
        ErrorCode.PROVIDER_ERROR,
        "an error was encountered while running the model",
    )


async def test_an_error_as_first_line_comes_before_any_event(vendor: VendorServer) -> None:
    """So it can be tried again."""
    vendor.replies(lines({"error": "the model is loading"}))
    events, error = await read_until_it_fails(MODEL.stream(to(vendor)))
    assert (events, error.retryable) == ([], True)


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_a_stream_that_just_ends_was_cut(count: int, vendor: VendorServer) -> None:
    """Even if it ends cleanly: only Ollama's own last line says that the answer is whole."""
    vendor.replies(lines_reply("".join(fixture("text.ndjson").splitlines(keepends=True)[:count])))
    events, error = await read_until_it_fails(MODEL.stream(to(vendor)))
    assert (error.code, error.retryable) == (ErrorCode.NETWORK_ERROR, True)
    assert "message_stop" not in [event.type for event in events]


async def test_a_connection_that_breaks_is_a_network_error(vendor: VendorServer) -> None:
    vendor.replies(lines_reply(fixture("text.ndjson").splitlines(keepends=True)[0]).then(CUT))
    events, error = await read_until_it_fails(MODEL.stream(to(vendor)))
    assert deltas(events) == [("message_start", None), ("text_delta", "The")]
    assert error.code is ErrorCode.NETWORK_ERROR


@pytest.mark.parametrize("line", ["{no json}\n", "[1]\n", '{"message":\n'])
async def test_a_line_that_is_no_object_is_invalid(line: str, vendor: VendorServer) -> None:
    vendor.replies(lines_reply(fixture("text.ndjson").splitlines(keepends=True)[0] + line))
    _, error = await read_until_it_fails(MODEL.stream(to(vendor)))
    assert error.code is ErrorCode.INVALID_RESPONSE


async def test_blank_lines_keep_a_stream_alive(vendor: VendorServer) -> None:
    text = fixture("text.ndjson").replace("\n", "\n\n\r\n")
    _, response = await stream(vendor, lines_reply("\n" + text))
    assert response.message.text == "The sky is naïvely 🌊"


async def test_nothing_is_sent_before_a_stream_is_read(vendor: VendorServer) -> None:
    vendor.replies(lines_reply(fixture("text.ndjson")))
    result = MODEL.stream(to(vendor))
    assert vendor.connections == 0
    await result.response()
    assert len(vendor.received) == 1


async def test_closing_a_stream_closes_the_connection(vendor: VendorServer) -> None:
    first = fixture("text.ndjson").splitlines(keepends=True)[0]
    vendor.replies(lines_reply(first).then(60.0))
    result = MODEL.stream(to(vendor))
    await anext(result)
    await result.aclose()
    await vendor.hung_up()


@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tool_choice": "required"}, "cannot be made to call"),
        ({"tool_choice": {"name": "weather"}}, "cannot be made to call"),
        ({"structure": STRUCTURE}, "cannot call tools in an answer whose form is given"),
    ],
)
async def test_what_is_refused_is_never_sent(
    fields: dict[str, Any], problem: str, streamed: bool, vendor: VendorServer
) -> None:
    request = to(vendor, tools=[TOOL], **fields)
    with pytest.raises(UPPError, match=problem) as caught:
        await (MODEL.stream(request).response() if streamed else MODEL.complete(request))
    assert (caught.value.code, vendor.connections) == (ErrorCode.INVALID_REQUEST, 0)


def test_the_adapter_has_no_options() -> None:
    reference = ollama("qwen3", config=ProviderConfig(base_url="http://gpu:11434"))
    assert (reference.model_id, reference.config) == ("qwen3", ProviderConfig(base_url="http://gpu:11434"))
    with pytest.raises(UPPError, match="no option api"):
        reference.provider.bind("qwen3", {"api": "x"})
