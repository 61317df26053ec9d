"""ThreadProtocol's checks 32 to 39: a thread as Pydantic AI's messages for one agent, taken by the real package."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai import messages as pai
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure.errors import InvalidInput
from perdure.protocols.threadprotocol.canonical import canonical_bytes
from perdure.protocols.threadprotocol.from_pydantic_ai import actions_from_messages
from perdure.protocols.threadprotocol.models import Thread
from perdure.protocols.threadprotocol.to_pydantic_ai import messages_for_agent
from perdure.protocols.threadprotocol.validation import read_thread
from perdure.protocols.threadprotocol.viewing import INTERRUPTED, View
from perdure.upp.json_value import JSONObject, JSONValue
from tests.unit.protocols.threadprotocol.threads import (
    ANNA,
    FRED,
    START,
    calls,
    document,
    example,
    returns,
    says,
    thinks,
    thread,
    user,
)

IMAGE: JSONObject = {"type": "image", "image_base64": "AP/+", "media_type": "image/png"}


def parts(read: Thread, agent_id: str = FRED, view: View | None = None) -> list[tuple[str, str, Any]]:
    """(kind of message, kind of part, content or call) of all parts, which the package takes."""
    messages = messages_for_agent(read, agent_id, view)
    pai.ModelMessagesTypeAdapter.validate_python(messages)
    return [
        (str(message["kind"]), part["part_kind"], part.get("content", part.get("tool_call_id")))
        for message in messages
        for part in cast("list[Any]", message["parts"])
    ]


def test_check_32_own_text_is_unchanged() -> None:
    assert parts(thread(user(), says("{agent:Anna}: x")))[1] == ("response", "text", "{agent:Anna}: x")


def test_check_33_anothers_text_has_its_name_before_it() -> None:
    heard = parts(read_thread(example()), "agent_002")
    prefixed = "{agent:Weather Assistant}: Let me check the current weather in Tokyo for you."
    assert heard[1] == ("request", "user-prompt", prefixed)


def test_check_33_anothers_text_can_be_in_the_agents_own_voice() -> None:
    heard = parts(thread(user(), says("x", ANNA)), view=View(others_text="assistant"))
    assert heard[1] == ("response", "text", "{agent:Anna}: x")


def test_check_33_a_prefix_that_somebody_wrote_is_no_attribution() -> None:
    heard = parts(thread(says("{agent:Fred}: I agree", ANNA)))
    assert heard == [("request", "user-prompt", "{agent:Anna}: {agent:Fred}: I agree")]


def test_check_34_content_of_several_parts_has_the_prefix_once() -> None:
    text: list[JSONObject] = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    _, _, content = parts(thread(says([IMAGE, *text], ANNA)))[0]
    assert content[1:] == ["{agent:Anna}: a", "b"]
    assert content[0] == {"kind": "binary", "data": "AP_-", "media_type": "image/png"}
    assert parts(thread(says([IMAGE], ANNA)))[0][2][0] == "{agent:Anna}: "


SHOWN: list[tuple[str, list[str]]] = [
    ("hide", []),
    ("summarize", ['{agent:Anna}: used tool search({"q":"x"}) → {"n":1}']),
    (
        "show",
        ['{agent:Anna}: called tool search with {"q":"x"}', '{agent:Anna}: tool search returned (success) {"n":1}'],
    ),
]


@pytest.mark.parametrize(("policy", "lines"), SHOWN)
def test_check_35_anothers_tools_are_shown_by_policy_and_only_as_text(policy: Any, lines: list[str]) -> None:
    read = thread(user(), calls(agent_id=ANNA), returns(), says("done", ANNA))
    heard = parts(read, view=View(others_tools=policy))
    assert [content for _, _, content in heard] == ["hi", *lines, "{agent:Anna}: done"]
    assert {kind for _, kind, _ in heard} == {"user-prompt"}


def test_check_36_foreign_thinking_is_dropped_and_own_keeps_its_signature() -> None:
    read = thread(thinks("mine", signature=" s= ", thinking_id="t1"), thinks("theirs", ANNA, signature="x"), says("a"))
    messages = messages_for_agent(read, FRED)
    first = cast(Any, messages[0])["parts"][0]
    expected = {"content": "mine", "signature": " s= ", "id": "t1", "provider_name": "anthropic"}
    assert {name: first[name] for name in expected} == expected
    assert "theirs" not in json.dumps(messages)


def test_check_37_system_actions_are_skipped() -> None:
    read = thread(user(), {"action_type": "system.agent_join", "data": {"agent_id": FRED}}, says("a"))
    assert parts(read) == [("request", "user-prompt", "hi"), ("response", "text", "a")]


def test_check_37_what_was_before_the_join_can_be_left_out() -> None:
    join: JSONObject = {"action_type": "system.agent_join", "data": {"agent_id": ANNA}}
    read = thread(user("before"), calls(), returns(), join, user("after"), says("a", ANNA))
    assert parts(read, ANNA, View(since_join=True)) == [("request", "user-prompt", "after"), ("response", "text", "a")]


def test_results_follow_their_calls_whatever_is_said_between() -> None:
    read = thread(user(), calls(), says("me too", ANNA), returns(), says("done"))
    assert [kind for _, kind, _ in parts(read)] == ["user-prompt", "tool-call", "tool-return", "user-prompt", "text"]


def test_check_38_a_call_that_was_never_answered_gets_a_result_unless_it_is_pending() -> None:
    pending = thread(user(), calls())
    assert [kind for _, kind, _ in parts(pending)] == ["user-prompt", "tool-call"]
    left = thread(user(), calls("c1"), calls("c2"), returns("c2"), user("well?"))
    heard = parts(left)
    assert [kind for _, kind, _ in heard] == ["user-prompt", "tool-call", "tool-call"] + ["tool-return"] * 2 + [
        "user-prompt"
    ]
    assert heard[4][2] == INTERRUPTED


def test_check_38_a_providers_own_call_stays_in_its_response() -> None:
    executed: dict[str, Any] = {"provider_executed": True, "provider_name": "openai"}
    read = thread(user(), calls(**executed), returns(**executed), says("found"))
    kinds = [(of, kind) for of, kind, _ in parts(read)]
    assert kinds[1:] == [("response", "builtin-tool-call"), ("response", "builtin-tool-return"), ("response", "text")]


async def test_check_38_a_model_goes_on_from_the_messages() -> None:
    seen: list[pai.ModelMessage] = []

    def answer(messages: list[pai.ModelMessage], _: AgentInfo) -> pai.ModelResponse:
        seen.extend(messages)
        return pai.ModelResponse(parts=[pai.TextPart("sunny")])

    for agent_id in ("agent_001", "agent_002"):
        history = pai.ModelMessagesTypeAdapter.validate_python(messages_for_agent(read_thread(example()), agent_id))
        result = await Agent(FunctionModel(answer)).run("And tomorrow?", message_history=history)
        assert result.output == "sunny"
    made = [part.tool_call_id for message in seen for part in message.parts if isinstance(part, pai.ToolCallPart)]
    back = [part.tool_call_id for message in seen for part in message.parts if isinstance(part, pai.ToolReturnPart)]
    assert made == back == ["call_001"]


def test_an_agent_that_is_not_in_the_thread_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="nobody"):
        messages_for_agent(thread(user()), "nobody")


def test_attachments_are_part_of_the_prompt() -> None:
    attachments: list[JSONValue] = [{"name": "a.pdf", "url": "https://x/a.pdf", "media_type": "application/pdf"}]
    _, _, content = parts(thread({**user("read"), "attachments": attachments}))[0]
    assert content == ["read", {"kind": "document-url", "url": "https://x/a.pdf", "media_type": "application/pdf"}]


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2), max_leaves=4
)
STATUSES = st.sampled_from(["success", "error", "validation_error"])


@st.composite
def own_threads(draw: st.DrawFn) -> dict[str, Any]:
    """A thread of one agent without system actions, each of whose calls has returned."""
    actions: list[JSONObject] = []
    for turn in range(draw(st.integers(1, 3))):
        actions.append(user(draw(TEXTS)))
        for step in range(draw(st.integers(0, 2))):
            ids = [f"c{turn}-{step}-{place}" for place in range(draw(st.integers(1, 3)))]
            actions += [thinks(draw(TEXTS.filter(bool)), signature=draw(TEXTS))] if draw(st.booleans()) else []
            actions += [says(draw(TEXTS.filter(bool)))] if draw(st.booleans()) else []
            actions += [calls(call_id, args=draw(VALUES)) for call_id in ids]
            back = draw(st.permutations(ids))
            actions += [returns(call_id, status=draw(STATUSES), content=draw(VALUES)) for call_id in back]
        actions.append(says(draw(TEXTS), finish_reason="stop"))
    return document(*actions)


def at_one_moment(value: dict[str, Any]) -> dict[str, Any]:
    """The thread with one time for all of a response, as Pydantic AI's messages have it."""
    for action in value["actions"]:
        action["timestamp"] = START
    return value


@settings(max_examples=60, deadline=None)
@given(own_threads())
def test_check_39_a_thread_of_one_agent_comes_back_as_it_was(value: dict[str, Any]) -> None:
    read = read_thread(at_one_moment(value))
    messages = pai.ModelMessagesTypeAdapter.validate_python(messages_for_agent(read, FRED))
    again = actions_from_messages(
        json.loads(pai.ModelMessagesTypeAdapter.dump_json(messages)), agent_id=FRED, not_before=START
    )
    assert [canonical_bytes(action) for action in again] == [canonical_bytes(action) for action in read.actions]


@settings(max_examples=40, deadline=None)
@given(own_threads())
def test_check_39_messages_come_back_as_they_were(value: dict[str, Any]) -> None:
    """The input is in normal form already: one text for each response, arguments as objects, no system prompts."""
    first = messages_for_agent(read_thread(at_one_moment(value)), FRED)
    actions = actions_from_messages(first, agent_id=FRED, not_before=START)
    told: list[JSONValue] = [action.to_json() for action in actions]
    again = read_thread({**document(), "actions": told})
    assert messages_for_agent(again, FRED) == first
