"""ThreadProtocol's 44 checks by number, against a running server: what comes in, what goes out, and what Node makes of it.

Checks 1 to 16 send threads to the server. 17 to 31 make actions of Pydantic AI's messages, send them, and get them back.
32 to 39 read what the server has as one agent's messages. 40 to 44 are the AI SDK's streams: of the server, read by the AI
SDK and by `threadprotocol.mjs`, and hand-written ones, of which Python and Node make the same bytes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from pydantic_ai import Agent
from pydantic_ai import messages as pai
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from perdure.protocols.threadprotocol.canonical import canonical_bytes, canonical_hash
from perdure.protocols.threadprotocol.from_pydantic_ai import actions_from_messages
from perdure.protocols.threadprotocol.models import Thread
from perdure.protocols.threadprotocol.to_pydantic_ai import messages_for_agent
from perdure.protocols.threadprotocol.validation import read_thread
from perdure.protocols.threadprotocol.viewing import View
from perdure.upp.json_value import JSONObject
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.chat_place import APP, calls, chatted, check_same, new_chat, script, send, states
from tests.integration.stack import Stack, WorkerProcess
from tests.unit.protocols.threadprotocol import threads as made
from tests.unit.protocols.threadprotocol.threads import ANNA, FRED, START, document, example

pytestmark = pytest.mark.asyncio(loop_scope="module")

IMAGE: JSONObject = {"type": "image", "image_base64": "AP/+", "media_type": "image/png"}
CALL = pai.ToolCallPart("search", {"q": 1}, "c1")


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    """A server and its worker; no test kills them."""
    worker = WorkerProcess(stack, APP).wait_ready()
    process = ApiProcess(stack).wait_ready()
    yield process
    process.kill()
    worker.kill()


async def refused(api: ApiProcess, value: Any) -> dict[str, str]:
    """Path and rule of each error that the server tells of a thread."""
    async with api.client() as client:
        body = {"agent": "teller", "as_agent": "fred_v1", "threads": [value]}
        answer = await client.post("/sessions/import-threads", json=body)
    assert code_of(answer, 422) == "invalid_thread"
    problems = answer.json()["problems"]
    assert all(problem["remedy"] for problem in problems)
    return {problem["path"]: problem["rule"] for problem in problems if problem["severity"] == "error"}


async def kept(api: ApiProcess, value: Any, *, as_agent: str = "fred_v1", **more: Any) -> Thread:
    """The thread that the server has once it has taken this one."""
    async with api.client() as client:
        body = {"agent": "teller", "as_agent": as_agent, "threads": [value], **more}
        session = checked(await client.post("/sessions/import-threads", json=body), 201)["session"]
        shown = checked(await client.get(f"/sessions/{session}/thread"))
    return read_thread(shown)


def core(actions: Sequence[Any], *names: str) -> list[tuple[Any, ...]]:
    """Type and some members of what is no system action."""
    values: list[Any] = [action if isinstance(action, dict) else action.to_json() for action in actions]
    return [
        (value["action_type"], *(value.get(name) for name in names))
        for value in values
        if not value["action_type"].startswith("system.")
    ]


def dumped(*messages: pai.ModelMessage) -> list[Any]:
    return json.loads(pai.ModelMessagesTypeAdapter.dump_json(list(messages)))


def asked(*parts: Any) -> list[Any]:
    return dumped(pai.ModelRequest(parts=list(parts)))


def answered(*parts: Any, **fields: Any) -> list[Any]:
    return dumped(pai.ModelResponse(parts=list(parts), **fields))


async def told(api: ApiProcess, *messages: list[Any], **options: Any) -> list[dict[str, Any]]:
    """The actions of Pydantic AI's messages, which the server takes as a thread."""
    actions = actions_from_messages(
        [one for some in messages for one in some], agent_id=FRED, not_before=START, **options
    )
    values = [cast("dict[str, Any]", action.to_json()) for action in actions]
    await kept(api, document() | {"actions": values, "updated_at": "2999-01-01T00:00:00Z"})
    return values


async def test_check_01_the_specifications_example_is_taken(api: ApiProcess) -> None:
    thread = await kept(api, example(), as_agent="travel_planner_v1")
    assert core(thread.actions)[0] == ("user_message",)
    assert "Great weather for sightseeing!" in json.dumps([action.to_json() for action in thread.actions])


def changed(**change: Any) -> dict[str, Any]:
    return document(made.user()) | change


def lacking(name: str) -> dict[str, Any]:
    value = document(made.user())
    del value[name]
    return value


def with_agents(key: str, identifier: str) -> dict[str, Any]:
    """A thread whose first agent stands under another key, or whose second one has another identifier."""
    value = document(made.user())
    agents = value["agents"]
    agents[key] = agents.pop(FRED)
    agents[ANNA]["agent_identifier"] = identifier
    return value


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("02", changed(version="2.0.0"), "version"),
    ("03", changed(thread_id="42"), "thread_id"),
    ("03 parent", changed(parent_thread_id="main"), "parent_thread_id"),
    ("04 title", lacking("title"), "title"),
    ("04 agents", lacking("agents"), "agents"),
    ("04 actions", lacking("actions"), "actions"),
    ("05", with_agents("x", "anna_v1"), "agents.x.agent_id"),
    ("06", with_agents(FRED, "fred_v1"), f"agents.{FRED}.agent_identifier"),
    ("07", document({"action_type": "shout"}), "actions[0].action_type"),
    ("08 message", document(made.says(agent_id="nobody")), "actions[0].agent_id"),
    ("08 thinking", document(made.thinks(agent_id="nobody")), "actions[0].agent_id"),
    ("08 call", document(made.calls(agent_id="nobody")), "actions[0].agent_id"),
    ("09", document(made.thinks(provider_name=None)), "actions[0].provider_name"),
    ("10 zero", document({**made.user(), "sequence": 0}), "actions[0].sequence"),
    ("10 gap", document({**made.user(), "sequence": 2}), "actions[0].sequence"),
    ("10 float", document({**made.user(), "sequence": 1.5}), "actions[0].sequence"),
    ("10 again", document(made.user(), {**made.user(), "sequence": 1}), "actions[1].sequence"),
    ("11", document(made.user(), {**made.user(), "timestamp": START}), "actions[1].timestamp"),
    ("12 no call", document(made.returns()), "actions[0].tool_call_id"),
    ("12 name", document(made.calls(), made.returns(tool_name="buy")), "actions[1].tool_name"),
    ("12 before", document(made.returns(), made.calls()), "actions[0].tool_call_id"),
    ("12 second", document(made.calls(), made.returns(), made.returns()), "actions[2].tool_call_id"),
    ("13", document(made.calls(), made.returns(status="maybe")), "actions[1].status"),
    ("14 none", document(made.user([{"type": "image"}])), "actions[0].content"),
    ("14 both", document(made.user([{**IMAGE, "image_url": "https://x"}])), "actions[0].content"),
    ("16", changed(created_at="yesterday"), "created_at"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "path"), [row[1:] for row in REFUSED], ids=[f"check {row[0]}" for row in REFUSED])
async def test_checks_02_to_16_what_breaks_a_rule_is_refused(api: ApiProcess, value: dict[str, Any], path: str) -> None:
    assert path in await refused(api, value)


async def test_check_04_a_thread_without_actions_is_taken(api: ApiProcess) -> None:
    assert (await kept(api, document())).actions == []


async def test_check_07_an_unknown_system_action_is_kept_byte_for_byte() -> None:
    odd: JSONObject = {"action_type": "system.foo_bar", "data": {"b": [1, None], "a": "\u00e9"}, "more": {"x": 1.5}}
    value = document(odd)
    assert read_thread(value).actions[0].to_json() == value["actions"][0]


async def test_check_11_equal_times_are_taken(api: ApiProcess) -> None:
    same = [{**made.user(), "timestamp": START}, {**made.says(), "timestamp": START}]
    assert len(core((await kept(api, document(*same))).actions)) == 2


async def test_check_15_members_that_nobody_knows_survive(api: ApiProcess) -> None:
    value = document({**made.user(), "mood": {"x": [1]}}) | {"colour": "red"}
    assert read_thread(value).to_json() == value
    assert await kept(api, value)


async def test_check_16_offsets_become_z(api: ApiProcess) -> None:
    thread = await kept(api, document({**made.user(), "timestamp": "2025-01-15T12:00:01.98765+02:00"}))
    assert thread.actions[0].timestamp == "2025-01-15T10:00:01.987Z"


async def test_check_17_a_plain_prompt(api: ApiProcess) -> None:
    assert core(await told(api, asked(pai.UserPromptPart("hi"))), "content") == [("user_message", "hi")]


async def test_check_18_media_in_a_prompt(api: ApiProcess) -> None:
    content = ["see", pai.ImageUrl("https://x/a.png"), pai.BinaryContent(b"\x00\xff\xfe", media_type="image/png")]
    (prompt,) = await told(api, asked(pai.UserPromptPart(content)))
    at: JSONObject = {"type": "image", "image_url": "https://x/a.png", "media_type": "image/png"}
    assert prompt["content"] == [{"type": "text", "text": "see"}, at, IMAGE]


async def test_check_19_system_prompts_are_no_actions(api: ApiProcess) -> None:
    assert core(await told(api, asked(pai.SystemPromptPart("kind"), pai.UserPromptPart("hi")))) == [("user_message",)]


async def test_checks_20_and_21_texts_of_a_response_are_one_message_first(api: ApiProcess) -> None:
    assert core(await told(api, answered(pai.TextPart("a"), pai.TextPart("b"))), "content") == [
        ("assistant_message", "ab")
    ]
    assert core(await told(api, answered(pai.TextPart("a"), CALL, pai.TextPart("b"))), "content") == [
        ("assistant_message", "ab"), ("tool_call", None)
    ]  # fmt: skip


async def test_check_22_thinking_keeps_its_signature(api: ApiProcess) -> None:
    parts = [
        pai.ThinkingPart("one", signature=" s+/= ", provider_name="anthropic"),
        pai.ThinkingPart("", signature="x"),
    ]
    first, second = await told(api, answered(*parts, provider_name="bedrock"))
    assert (first["content"], first["signature"], first["provider_name"]) == ("one", " s+/= ", "anthropic")
    assert ("content" in second, second["provider_name"]) == (False, "bedrock")


@pytest.mark.parametrize(
    ("args", "expected"), [('{"q": 1}', {"q": 1}), ({"q": 1}, {"q": 1}), ("", {}), ('{"q": ', '{"q": ')]
)
async def test_check_23_arguments(api: ApiProcess, args: Any, expected: Any) -> None:
    assert (await told(api, answered(pai.ToolCallPart("search", args, "c1"))))[0]["args"] == expected


VALIDATION: Any = pai.RetryInfo(cause="validation_error")
OUTCOMES: list[tuple[dict[str, Any], str]] = [
    ({}, "success"), ({"outcome": "failed"}, "error"), ({"outcome": "denied"}, "error"),
    ({"outcome": "interrupted"}, "error"), ({"outcome": "retried"}, "error"),
    ({"outcome": "retried", "retry": VALIDATION}, "validation_error"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "status"), OUTCOMES)
async def test_check_24_outcomes(api: ApiProcess, fields: dict[str, Any], status: str) -> None:
    back = asked(pai.ToolReturnPart("search", "r", "c1", **fields))
    assert core(await told(api, answered(CALL), back), "status", "content")[1] == ("tool_return", status, "r")


async def test_checks_25_and_26_retries(api: ApiProcess) -> None:
    at = "2026-01-01T00:00:00Z"
    part: JSONObject = {"part_kind": "retry-prompt", "content": "again", "tool_call_id": "c1", "timestamp": at}
    with_tool: list[Any] = [{"kind": "request", "parts": [{**part, "tool_name": "search"}]}]
    without: list[Any] = [{"kind": "request", "parts": [{**part, "tool_name": None}]}]
    returned = (await told(api, answered(CALL), with_tool))[1]
    assert (returned["action_type"], returned["status"]) == ("tool_return", "error")
    assert [action["action_type"] for action in await told(api, without)] == ["system.retry_feedback"]


async def test_checks_27_and_28_a_providers_tools_and_files(api: ApiProcess) -> None:
    call = pai.NativeToolCallPart("web_search", {"q": 1}, "b1", provider_name="openai")
    back = pai.NativeToolReturnPart("web_search", {"hits": []}, "b1", provider_name="openai")
    image = pai.FilePart(pai.BinaryImage(b"\x00\xff\xfe", media_type="image/png"))
    actions = await told(api, answered(call, back, pai.TextPart("a"), image))
    assert [action["action_type"] for action in actions] == ["tool_call", "tool_return", "assistant_message"]
    assert actions[0]["provider_executed"] is actions[1]["provider_executed"] is True
    assert actions[2]["content"] == [{"type": "text", "text": "a"}, IMAGE]


async def test_check_29_usage_and_reason(api: ApiProcess) -> None:
    usage = RequestUsage(input_tokens=3, output_tokens=4)
    (said, _) = await told(api, answered(pai.TextPart("a"), CALL, usage=usage, finish_reason="tool_call"))
    counts = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    assert (said["finish_reason"], said["usage"]) == ("tool_call", counts)


async def test_check_30_parallel_calls(api: ApiProcess) -> None:
    asks = [pai.ToolCallPart("search", {}, f"c{number}") for number in (1, 2, 3)]
    back = [pai.ToolReturnPart("search", number, f"c{number}") for number in (3, 1, 2)]
    ids = [action["tool_call_id"] for action in await told(api, answered(*asks), asked(*back))]
    assert ids == ["c1", "c2", "c3", "c3", "c1", "c2"]


async def test_check_31_every_kind_of_part_is_taken(api: ApiProcess) -> None:
    kinds = sorted({str(value.part_kind) for value in vars(pai).values() if hasattr(value, "part_kind")})
    assert len(kinds) > 15
    messages: list[Any] = []
    for kind in kinds:
        part: JSONObject = {"part_kind": kind, "content": "x", "tool_name": "t", "tool_call_id": kind, "args": {}}
        if kind == "file":
            part["content"] = {"kind": "binary", "data": "eA==", "media_type": "image/png"}
        whole: JSONObject = {**part, "speaker": "user", "transcript": "said"}
        messages += [{"kind": of, "parts": [whole]} for of in ("request", "response")]
    assert len(await told(api, messages)) > len(kinds)


def heard(thread: Thread, agent_id: str, view: View | None = None) -> list[tuple[str, Any]]:
    """Kind and content of the parts that an agent is sent, which the package takes."""
    messages = messages_for_agent(thread, agent_id, view)
    pai.ModelMessagesTypeAdapter.validate_python(messages)
    return [
        (part["part_kind"], part.get("content", part.get("tool_call_id")))
        for message in messages
        for part in cast("list[Any]", message["parts"])
    ]


async def test_checks_32_to_35_others_are_told_by_name(api: ApiProcess) -> None:
    """As messages of Pydantic AI, and as the conversation of a session."""
    both: list[JSONObject] = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    value = document(
        made.user(), made.says("mine"), made.calls(agent_id=ANNA), made.returns(), made.says([IMAGE, *both], ANNA)
    )
    thread = read_thread(value)
    kinds = heard(thread, FRED)
    assert kinds[1] == ("text", "mine")
    assert kinds[2][1][1:] == ["{agent:Anna}: a", "b"]
    for policy, count in (("hide", 0), ("summarize", 1), ("show", 2)):
        shown = heard(thread, FRED, View(others_tools=cast(Any, policy)))
        assert (len(shown), {kind for kind, _ in shown}) == (3 + count, {"user-prompt", "text"})
        session = await kept(api, value, others_tools=policy)
        texts = json.dumps([action.to_json() for action in session.actions])
        assert texts.count("{agent:Anna}: ") == 1 + count
        assert "tool_call" not in [action.action_type for action in session.actions]
    weather = heard(read_thread(example()), "agent_002")
    assert weather[1][1] == "{agent:Weather Assistant}: Let me check the current weather in Tokyo for you."


async def test_checks_36_and_37_foreign_thinking_and_system_actions_are_left_out(api: ApiProcess) -> None:
    join: JSONObject = {"action_type": "system.agent_join", "data": {"agent_id": FRED}}
    value = document(
        join, made.user(), made.thinks("mine", signature=" s= "), made.thinks("theirs", ANNA), made.says("a")
    )
    assert [kind for kind, _ in heard(read_thread(value), FRED)] == ["user-prompt", "thinking", "text"]
    session = [action.to_json() for action in (await kept(api, value)).actions]
    assert [a.get("signature") for a in session if a["action_type"] == "thinking"] == [" s= "]
    assert "theirs" not in json.dumps(session)


async def test_check_38_a_session_goes_on_from_a_thread_with_a_call_that_nobody_answered(api: ApiProcess) -> None:
    """A model of Pydantic AI takes the messages; a run of the server takes the session."""
    value = document(
        made.user(), made.calls("c1"), made.calls("c2"), made.returns("c2"), made.user("well?"), made.says("x")
    )
    history = pai.ModelMessagesTypeAdapter.validate_python(messages_for_agent(read_thread(value), FRED))

    def answer(messages: list[pai.ModelMessage], _: AgentInfo) -> pai.ModelResponse:
        asks = [
            part.tool_call_id for message in messages for part in message.parts if isinstance(part, pai.ToolCallPart)
        ]
        back = [
            part.tool_call_id for message in messages for part in message.parts if isinstance(part, pai.ToolReturnPart)
        ]
        assert sorted(asks) == sorted(back)
        return pai.ModelResponse(parts=[pai.TextPart("sunny")])

    assert (await Agent(FunctionModel(answer)).run("And?", message_history=history)).output == "sunny"
    async with api.client() as client:
        body = {"agent": "teller", "as_agent": "fred_v1", "threads": [value]}
        session = checked(await client.post("/sessions/import-threads", json=body), 201)["session"]
        run = await client.post(f"/sessions/{session}/runs", json={"input": "And?", "mode": "wait"})
        assert checked(run)["status"] == "completed"


async def test_check_39_round_trips(api: ApiProcess) -> None:
    """Of a thread through Pydantic AI's messages, and of a session through its thread."""
    at: JSONObject = {"timestamp": START}
    own = document(
        {**made.user(), **at}, {**made.thinks(signature="s"), **at}, {**made.calls(), **at}, {**made.returns(), **at},
        {**made.says("done", finish_reason="stop"), **at},
    )  # fmt: skip
    thread = read_thread(own)
    again = actions_from_messages(messages_for_agent(thread, FRED), agent_id=FRED, not_before=START)
    assert [canonical_bytes(action) for action in again] == [canonical_bytes(action) for action in thread.actions]
    first = await kept(api, own)
    second = await kept(api, first.to_json(), as_agent="teller")
    names = ("content", "args", "status", "tool_call_id", "signature")
    assert core(first.actions, *names) == core(second.actions, *names) == core(thread.actions, *names)


async def test_check_40_the_ai_sdk_reads_a_run_and_the_client_makes_the_servers_bytes(api: ApiProcess) -> None:
    """Thinking, text, two tools, one of which fails, and a text in the end, live, by the real client."""
    both = calls(("look", {"at": "sea"}), ("fail", {"why": "no"}), text="Let me see", reasoning="hm")
    said = script(uuid.uuid4().hex, both, "Done 😀")
    result = await chatted(api.url, new_chat(), send(said), body={"agent": "teller"})
    assert (result["status"], result["errors"]) == ("ready", [])
    assert states(result) == [("look", "output-available"), ("fail", "output-error")]
    actions = await check_same(api, result)
    assert core(actions)[0] == ("user_message",)
    assert [kind for (kind,) in core(actions)].count("tool_return") == 2


async def test_check_44_a_thread_has_one_canonical_form(api: ApiProcess) -> None:
    """Given twice the same, and the same again once it was read; its hash is told."""
    async with api.client() as client:
        body = {"agent": "teller", "input": script(uuid.uuid4().hex, "é 😀"), "mode": "wait"}
        session = checked(await client.post("/runs", json=body))["session"]
        first, second = [await client.get(f"/sessions/{session}/thread?form=canonical") for _ in range(2)]
    assert first.content == second.content == canonical_bytes(read_thread(json.loads(first.content)))
    assert first.headers["threadprotocol-hash"] == canonical_hash(read_thread(json.loads(first.content)))
