"""The canonical form: one thread, one sequence of bytes. Check 44's second half."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.protocols.threadprotocol.canonical import canonical_bytes, canonical_hash, display_bytes
from perdure.protocols.threadprotocol.problem import InvalidThread
from perdure.protocols.threadprotocol.validation import read_thread
from tests.unit.protocols.threadprotocol.threads import calls, document, errors, example, returns, thread, user


def test_check_44_a_thread_that_is_dumped_twice_and_read_again_has_the_same_bytes() -> None:
    read = read_thread(example())
    assert canonical_bytes(read) == canonical_bytes(read)
    for written in (canonical_bytes(read), display_bytes(read)):
        assert canonical_bytes(read_thread(json.loads(written))) == canonical_bytes(read)
    assert display_bytes(read_thread(json.loads(display_bytes(read)))) == display_bytes(read)


def test_the_canonical_form_sorts_members_and_writes_characters_themselves() -> None:
    read = thread(user("18°C 😀 \u2028\x07"))
    expected = '{"action_type":"user_message","content":"18°C 😀 \u2028\\u0007","sequence":1,"timestamp":"2025-01-15T10:00:01.000Z"}'
    assert canonical_bytes(read.actions[0]).decode() == expected


def test_the_display_form_has_the_specifications_order() -> None:
    shuffled = dict(reversed(list(example().items())))
    names = list(json.loads(display_bytes(read_thread(shuffled))))
    assert names == ["version", "thread_id", "created_at", "updated_at", "title", "agents", "actions"]


def test_an_integer_is_written_without_a_point_and_a_large_one_as_javascript_reads_it() -> None:
    whole, float_form = thread(calls(args={"n": 18})), thread(calls(args={"n": 18.0}))
    assert canonical_hash(whole) == canonical_hash(float_form)
    large = thread(calls(args={"n": 12345678901234567890}))
    assert b'{"n":12345678901234567000}' in canonical_bytes(large)
    assert b"12345678901234567890" in display_bytes(large)


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, float("nan"), float("inf"), 10**400])
def test_what_has_no_canonical_form_is_refused_with_its_path(value: Any) -> None:
    found = errors(document(calls(), returns(content={"deep": [value]})))
    assert [problem.rule for problem in found] == ["canonical"]
    assert found[0].path.startswith("actions[1].content.deep[0]")
    with pytest.raises(InvalidThread, match="deep"):
        canonical_bytes(thread(calls(), returns()).actions[1].model_copy(update={"content": {"deep": [value]}}))


def test_an_optional_member_without_a_value_is_absent() -> None:
    given = document(user()) | {"parent_thread_id": None, "metadata": None}
    assert not {"parent_thread_id", "metadata"} & set(read_thread(given).to_json())


def test_null_as_a_tools_result_stays() -> None:
    assert thread(calls(), returns(content=None)).actions[1].to_json()["content"] is None
