"""A session's thread tree as threads, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from perdure.errors import InvalidInput
from perdure.protocols.threadprotocol.canonical import canonical_bytes
from perdure.protocols.threadprotocol.from_tree import (
    Noted,
    Said,
    Telling,
    actions_from_upp,
    thread_from_upp,
    thread_id_of,
    threads_from_tree,
)
from perdure.protocols.threadprotocol.models import AgentConfig, is_uuid
from perdure.protocols.threadprotocol.to_tree import messages_from_thread, tree_from_threads
from perdure.protocols.threadprotocol.validation import read_thread
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.content import BinaryBlock, DocumentBlock, ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import Base64Source, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.thread import Thread as UPPThread
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.usage import TokenUsage
from tests.unit.protocols.threadprotocol.threads import ANNA, FRED, START, agent, example, says, thread, user

BEGIN = datetime(2025, 1, 15, 10, tzinfo=UTC)
AGENTS = [AgentConfig.model_validate(agent(FRED, "Fred")), AgentConfig.model_validate(agent(ANNA, "Anna"))]
PLAIN = Telling(AGENTS, joins=False)
ROOT, BRANCH = "0d1b6a0e-1111-4111-8111-111111111111", "0d1b6a0e-2222-4222-8222-222222222222"


def at(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


def talk() -> list[Message]:
    signed = {"anthropic": {"thinkingSignature": "s=", "thinkingSignatures": ["s="]}}
    asked = [ToolCall("c1", "search", {"q": 1}), ToolCall("c2", "search", "{broken")]
    image = ImageBlock(Base64Source("AP/+"), "image/png")
    pdf = DocumentBlock(UrlSource("https://x/a.pdf"), "application/pdf", "a.pdf")
    return [
        UserMessage([TextBlock("see"), image, pdf, BinaryBlock(b"x", "application/zip")], id="m1", timestamp=at(1)),
        AssistantMessage([ReasoningBlock("hm"), TextBlock("I look")], asked, id="m2", timestamp=at(2), metadata=signed),
        ToolResultMessage([ToolResult("c1", {"n": 1}), ToolResult("c2", "bad", True)], id="m3", timestamp=at(3)),
        AssistantMessage("first", id="m4", timestamp=at(4)),
        AssistantMessage("second", id="m5", timestamp=at(5)),
        UserMessage("and?", id="m6", timestamp=at(6)),
        UserMessage("well?", id="m7", timestamp=at(7)),
    ]


def tree() -> ThreadTree:
    root = UPPThread(talk(), id="t-root", created_at=BEGIN, updated_at=at(9))
    made = ThreadTree(root, root_id=ROOT)
    own = UPPThread([UserMessage("other way", id="m8", timestamp=at(8))], id="t-b", created_at=at(8), updated_at=at(8))
    made.branch(ROOT, "second try", id=BRANCH, thread=own, fork_index=4)
    made.checkout(BRANCH)
    return made


def test_a_conversation_is_its_actions_in_order() -> None:
    actions = actions_from_upp(talk(), telling=PLAIN, not_before=START)
    kinds = [action.action_type for action in actions]
    assert kinds == [
        *("user_message", "thinking", "assistant_message", "tool_call", "tool_call", "tool_return", "tool_return"),
        *("assistant_message", "assistant_message", "user_message", "user_message"),
    ]
    signed = actions[1].to_json()
    assert (signed["signature"], signed["provider_name"], signed["content"]) == ("s=", "anthropic", "hm")
    assert [actions[5].to_json()["status"], actions[6].to_json()["status"]] == ["success", "error"]
    assert [action.extensions["message_id"] for action in actions[1:5]] == ["m2"] * 4


def test_a_tree_is_a_thread_for_each_node_and_a_branch_begins_at_one() -> None:
    root, branch = threads_from_tree(tree(), title="Talk", telling=PLAIN)
    for made in (root, branch):
        assert canonical_bytes(read_thread(made.to_json())) == canonical_bytes(made)
    assert (root.thread_id, root.parent_thread_id, branch.thread_id, branch.parent_thread_id) == (
        ROOT,
        None,
        BRANCH,
        ROOT,
    )
    assert [action.sequence for action in branch.actions] == [1]
    assert branch.title == "Talk / second try"


def test_a_tree_comes_back_as_it_was() -> None:
    threads = threads_from_tree(tree(), title="Talk", telling=PLAIN)
    again = tree_from_threads([read_thread(made.to_json()) for made in reversed(threads)], {ROOT: FRED, BRANCH: FRED})
    assert again.to_json() == tree().to_json()
    assert [message.id for message in again.history()] == ["m1", "m2", "m3", "m4", "m8"]


def test_a_sub_agents_thread_names_the_one_that_it_was_called_from() -> None:
    called = ThreadTree(UPPThread([UserMessage("go", id="x", timestamp=at(1))], id="sub"), root_id=BRANCH)
    (made,) = threads_from_tree(called, title="Sub", telling=PLAIN, parent=ROOT)
    assert made.parent_thread_id == ROOT


def test_agents_join_before_they_first_act_and_what_is_noted_stands_in_its_place() -> None:
    said = {
        "m4": Said(ANNA, "stop", TokenUsage(input_tokens=3, output_tokens=4, total_tokens=7)),
    }
    noted = [Noted("m2", "system.config_update", {"changes": {}}), Noted(None, "system.tool_grant", {"agent_id": ANNA})]
    actions = actions_from_upp(talk()[:4], telling=Telling(AGENTS, said, noted), not_before=START)
    kinds = [action.action_type for action in actions]
    assert kinds == [
        *("user_message", "system.config_update", "system.agent_join", "thinking", "assistant_message"),
        *("tool_call", "tool_call", "tool_return", "tool_return", "system.agent_join", "assistant_message"),
        "system.tool_grant",
    ]
    last = actions[-2].to_json()
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    assert (last["agent_id"], last["finish_reason"], last["usage"]) == (ANNA, "stop", usage)


def test_what_a_store_keeps_and_a_wire_cannot_is_made_sound() -> None:
    odd: list[Message] = [
        UserMessage("half \ud800", id="m1", timestamp=at(1)),
        ToolResultMessage([ToolResult("nobody", 1)], id="m2", timestamp=at(0)),
        AssistantMessage([], id="m3", timestamp=at(2)),
    ]
    made = thread_from_upp(UPPThread(odd, id="no uuid", created_at=at(5), updated_at=at(5)), title="", telling=PLAIN)
    assert canonical_bytes(read_thread(made.to_json())) == canonical_bytes(made)
    kinds = [action.action_type for action in made.actions]
    assert kinds == ["user_message", "system.orphan_tool_return", "assistant_message"]
    assert is_uuid(thread_id_of("no uuid"))


def test_a_foreign_thread_is_read_as_one_of_its_agents_sees_it() -> None:
    messages = messages_from_thread(read_thread(example()), "agent_001")
    assert [str(message.type) for message in messages] == ["user", "assistant", "tool_result", "assistant", "user"]
    assert messages[-1].text.startswith("{agent:Travel Planner}: Great weather")
    assert messages_from_thread(read_thread(example()), "agent_001")[0].id == messages[0].id


@pytest.mark.parametrize("count", [0, 2])
def test_threads_that_are_no_tree_are_refused(count: int) -> None:
    made = [thread(user(), says())] * count
    with pytest.raises(InvalidInput, match="root"):
        tree_from_threads(made, {item.thread_id: FRED for item in made})


def test_a_fork_beyond_the_parents_messages_is_refused() -> None:
    root, branch = threads_from_tree(tree(), title="Talk", telling=PLAIN)
    metadata: JSONObject = {"perdure": {"node_id": BRANCH, "metadata": {"forkIndex": 99}}}
    far = branch.model_copy(update={"metadata": metadata})
    with pytest.raises(InvalidInput, match="fork_index 99"):
        tree_from_threads([root, far], {ROOT: FRED, BRANCH: FRED})


def test_ids_that_a_vendor_uses_again_have_each_their_own_usage() -> None:
    """Under the keys of their rows what is known of two answers of one id is kept apart."""
    said = {"row-1": Said(usage=TokenUsage(1, 1, 2)), "row-2": Said(usage=TokenUsage(2, 2, 4))}
    messages = [AssistantMessage("one", id="again"), AssistantMessage("two", id="again")]
    noted = [Noted("row-2", "system.config_update", {"changes": {}})]
    telling = Telling(AGENTS, said, noted, joins=False)
    actions = [
        action.to_json()
        for action in actions_from_upp(messages, telling=telling, not_before=START, keys=["row-1", "row-2"])
    ]
    assert [action["action_type"] for action in actions] == [
        "assistant_message",
        "system.config_update",
        "assistant_message",
    ]
    assert [action["usage"] for action in actions if "usage" in action] == [
        {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        {"input_tokens": 2, "output_tokens": 2, "total_tokens": 4},
    ]
