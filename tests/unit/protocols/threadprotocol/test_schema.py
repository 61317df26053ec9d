"""ThreadProtocol's checks 1 to 16: what a thread must be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.protocols.threadprotocol.canonical import canonical_bytes, display_bytes
from perdure.protocols.threadprotocol.problem import InvalidThread
from perdure.protocols.threadprotocol.validation import problems_of, read_leniently, read_thread
from tests.unit.protocols.threadprotocol.threads import (
    ANNA,
    FRED,
    START,
    calls,
    document,
    errors,
    example,
    only_error,
    returns,
    says,
    thinks,
    thread,
    user,
)

CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"thread_id": "42"}, "thread_id"),
    ({"parent_thread_id": "main"}, "parent_thread_id"),
    ({"updated_at": "2025-01-15T09:00:00Z"}, "updated_at"),
    ({"created_at": "yesterday"}, "created_at"),
    ({"agents": []}, "agents"),
]


def test_check_01_the_specifications_example_is_sound() -> None:
    read = read_thread(example())
    assert len(read.actions) == 7
    assert {problem.rule for problem in problems_of(example())} == {"agent_uuid"}  # "agent_001" is only told


@pytest.mark.parametrize("version", ["1.0", "2.0.0", "", 1, None])
def test_check_02_another_version_is_refused(version: Any) -> None:
    assert only_error(document() | {"version": version}) == ("version", "version")


@pytest.mark.parametrize(("change", "path"), CHANGES)
def test_check_03_ids_and_dates_of_a_thread_have_their_form(change: dict[str, Any], path: str) -> None:
    assert only_error(document() | change)[0] == path


def test_check_03_a_thread_is_not_its_own_parent() -> None:
    own = document()
    assert only_error(own | {"parent_thread_id": own["thread_id"].upper()}) == ("parent_thread_id", "parent")


@pytest.mark.parametrize("member", ["title", "agents", "actions", "created_at"])
def test_check_04_a_required_member_must_be_there(member: str) -> None:
    lacking = document()
    del lacking[member]
    assert only_error(lacking)[0] == member


def test_check_04_a_thread_without_actions_is_sound() -> None:
    assert read_thread(document()).actions == []


def test_check_05_an_agents_key_is_its_id() -> None:
    wrong = document()
    wrong["agents"]["x"] = wrong["agents"].pop(FRED)
    assert only_error(wrong) == ("agents.x.agent_id", "agent_key")


def test_check_06_an_agents_identifier_is_its_own() -> None:
    wrong = document()
    wrong["agents"][ANNA]["agent_identifier"] = "fred_v1"
    assert only_error(wrong) == (f"agents.{ANNA}.agent_identifier", "agent_identifier")


@pytest.mark.parametrize("name", ["Fr}ed", "Fr\ned", "Fr\u2028ed"])
def test_an_agents_name_cannot_pass_for_another_agents_words(name: str) -> None:
    wrong = document()
    wrong["agents"][FRED]["agent_name"] = name
    assert only_error(wrong) == (f"agents.{FRED}.agent_name", "agent_name")


@pytest.mark.parametrize("kind", ["agent_message", "system.", "system.a b", "System.x", "", None, 7])
def test_check_07_an_unknown_core_action_is_refused(kind: Any) -> None:
    assert only_error(document({"action_type": kind, "data": 1})) == ("actions[0].action_type", "action_type")


def test_check_07_an_unknown_system_action_is_kept_byte_for_byte() -> None:
    data: Any = {"z": [None, 1.5, {"ü": "\x00"}], "a": {"b": None}}
    given = document({"action_type": "system.foo_bar", "data": data, "zeta": None, "alpha": 2})
    assert read_thread(given).to_json()["actions"] == given["actions"]
    told = display_bytes(read_thread(given).actions[0])
    expected = {
        name: given["actions"][0][name] for name in ("action_type", "timestamp", "sequence", "data", "zeta", "alpha")
    }
    assert told == json.dumps(expected, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize("action", [says(agent_id="x"), thinks(agent_id="x"), calls(agent_id="x")])
def test_check_08_an_agent_that_is_not_registered_is_refused(action: dict[str, Any]) -> None:
    assert only_error(document(user(), action)) == ("actions[1].agent_id", "agent_id")


@pytest.mark.parametrize("name", [None, ""])
def test_check_09_thinking_has_a_provider(name: str | None) -> None:
    lacking = thinks()
    del lacking["provider_name"]
    named = lacking if name is None else lacking | {"provider_name": name}
    assert only_error(document(named))[0] == "actions[0].provider_name"


@pytest.mark.parametrize("sequence", [1, 3, 0, -1, 2.0, "2", True])
def test_check_10_a_number_that_is_not_the_next_is_refused(sequence: Any) -> None:
    path, rule = only_error(document(user(), says() | {"sequence": sequence}))
    assert (path, rule) == ("actions[1].sequence", "sequence")


def test_check_11_a_time_does_not_go_back_and_may_stay() -> None:
    same = document(user(), says() | {"timestamp": "2025-01-15T10:00:01Z"})
    assert errors(same) == []
    back = document(user(), says() | {"timestamp": "2025-01-15T11:00:00.999+01:00"})
    assert only_error(back) == ("actions[1].timestamp", "timestamp")


def test_check_11_times_are_compared_as_moments() -> None:
    assert errors(document(user(), says() | {"timestamp": "2025-01-15T04:00:02-06:00"})) == []


def test_check_11_the_thread_is_updated_no_earlier_than_its_last_action() -> None:
    early = document(user(), says()) | {"updated_at": "2025-01-15T10:00:01Z"}
    assert only_error(early) == ("updated_at", "timestamp")


TOOL_FAULTS = [
    ([returns()], "actions[0].tool_call_id"),
    ([returns(), calls()], "actions[0].tool_call_id"),
    ([calls(), returns(tool_name="other")], "actions[1].tool_name"),
    ([calls(), returns(), returns()], "actions[2].tool_call_id"),
    ([calls(), calls()], "actions[1].tool_call_id"),
]


@pytest.mark.parametrize(("actions", "path"), TOOL_FAULTS)
def test_check_12_a_return_belongs_to_one_call_above_it(actions: list[dict[str, Any]], path: str) -> None:
    assert only_error(document(*actions))[0] == path


def test_check_12_a_call_without_return_is_legal_only_while_the_thread_is_open() -> None:
    pending = document(user(), calls())
    assert errors(pending) == []
    assert [problem.rule for problem in errors(pending, closed=True)] == ["open_call"]


@pytest.mark.parametrize("status", ["ok", "failed", None, True])
def test_check_13_a_bad_status_is_refused(status: Any) -> None:
    assert only_error(document(calls(), returns(status=status)))[0] == "actions[1].status"


IMAGE = {"type": "image", "media_type": "image/png"}


@pytest.mark.parametrize(
    "part",
    [
        IMAGE,
        IMAGE | {"image_url": "https://x/a.png", "image_base64": "AP/+"},
        IMAGE | {"image_base64": "AP_-"},
        IMAGE | {"image_url": 7},
        {"type": "text"},
        {"type": "poem", "text": "x"},
        {"type": "file", "url": "https://x/a", "data": "AAAA"},
    ],
)
def test_check_14_a_part_has_exactly_one_source(part: dict[str, Any]) -> None:
    path, _ = only_error(document(user([part])))
    assert path.startswith("actions[0].content")


def test_check_14_each_source_alone_is_sound() -> None:
    sources = [{"image_url": "https://x/a.png"}, {"image_base64": "AP/+"}]
    assert errors(document(user([IMAGE | source for source in sources]))) == []


def test_check_15_members_that_nobody_knows_survive() -> None:
    given = document(user([{"type": "text", "text": "a", "lang": "en"}]) | {"user_id": "u1"}, calls(trace={"x": None}))
    given["agents"][FRED]["colour"] = "red"
    given["x_origin"] = {"system": 7}
    assert read_thread(given).to_json() == given
    again = read_thread(json.loads(display_bytes(read_thread(given))))
    assert canonical_bytes(again) == canonical_bytes(read_thread(given))


@pytest.mark.parametrize(
    "text", ["2025-01-15", "2025-01-15T10:00:01", "2025-13-01T00:00:00Z", "2025-01-15 10:00:01Z", 1]
)
def test_check_16_a_bad_date_is_refused(text: Any) -> None:
    assert only_error(document(user() | {"timestamp": text}))[0] == "actions[0].timestamp"


def test_check_16_offsets_become_z_and_decimals_are_cut() -> None:
    read = thread(user() | {"timestamp": "2025-01-15T12:00:01.9999999+02:00"})
    assert read.actions[0].timestamp == "2025-01-15T10:00:01.999Z"
    assert read.created_at == START


def test_all_problems_are_told_at_once_with_path_and_remedy() -> None:
    wrong = document(says(agent_id="x"), {"action_type": "nonsense"}, user() | {"sequence": 9})
    with pytest.raises(InvalidThread) as caught:
        read_thread(wrong)
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["actions[1].action_type", "actions[2].sequence", "actions[0].agent_id"]
    assert all(problem.to_json()["remedy"] for problem in caught.value.problems)
    assert caught.value.code == "action_type"


def test_a_thread_that_is_nested_too_deeply_is_one_problem() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for wrong in (document(calls(args=deep)), document() | {"x": deep}):
        assert only_error(wrong) == ("thread", "depth")


@pytest.mark.parametrize("content", [7, None, [7], {"type": "text"}])
def test_content_that_is_none_is_one_problem(content: Any) -> None:
    assert only_error(document(user(content)))[0] == "actions[0].content"


def test_lenient_reading_mends_what_it_can() -> None:
    wrong = document(
        returns("nobody"),
        calls() | {"sequence": 1.5},
        says(agent_id="ghost") | {"timestamp": "2025-01-15T09:00:00Z"},
        returns(),
        returns(),
        {"action_type": "nonsense"},
        calls(),
    )
    wrong["agents"][ANNA]["agent_identifier"] = "fred_v1"
    wrong["agents"][FRED]["agent_name"] = "Fr}ed"
    mended = read_leniently(wrong)
    assert errors(mended.thread.to_json()) == []
    assert [action.action_type for action in mended.thread.actions] == ["tool_call", "assistant_message", "tool_return"]
    assert [action.sequence for action in mended.thread.actions] == [1, 2, 3]
    assert "ghost" in mended.thread.agents
    assert len([problem for problem in mended.problems if problem.severity == "error"]) >= 8


def test_lenient_reading_changes_nothing_that_is_sound() -> None:
    mended = read_leniently(example())
    assert canonical_bytes(mended.thread) == canonical_bytes(read_thread(example()))


@pytest.mark.parametrize("value", [None, [], {}, {"actions": []}])
def test_lenient_reading_refuses_what_is_no_thread(value: Any) -> None:
    with pytest.raises(InvalidThread):
        read_leniently(value)
