"""Derived ids. Their values are pinned: rows, histories and open sessions hold them."""

from __future__ import annotations

import uuid
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.uap import ids
from perdure.uap.ids import derive_id, is_uuid4, new_id
from tests.unit.upp.strategies import texts

SESSION = "11111111-1111-4111-8111-111111111111"
RUN = "96166b3f-2420-4941-ae62-31c10f112db2"
ANSWER = "8287b02d-c7fe-4015-bdd8-d64c3eab38d4"

PINNED = {
    "agent": (derive_id("agent", "coder"), "9d7858e0-c45b-4bbb-b292-2f1d07550c2f"),
    "root node": (ids.root_node_id(SESSION), "aca83f7c-1bd1-4b5f-aef7-422801872bdf"),
    "run": (ids.run_id(SESSION, 1), RUN),
    "answer": (ids.answer_id(RUN, 1), ANSWER),
    "results": (ids.results_id(RUN, 1), "17552e38-7bfa-4736-aa42-4a7f09cdb589"),
    "checkpoint": (ids.checkpoint_id(RUN, 1), "cae5c8bf-bf73-48d4-995a-c10921e39f99"),
    "tool call": (ids.tool_call_key(ANSWER, 0), "ba556a7f-39cb-4eed-8371-a5996eeaf255"),
    "wait": (ids.wait_id(ANSWER, 0), "69c52ee8-b703-4ab6-8c23-1b3ce17e40f4"),
    "lone surrogate": (derive_id("\ud800", -1), "c3a4a73d-58f8-4ea9-a0a8-1857e1b2f36f"),
}


@pytest.mark.parametrize("what", PINNED)
def test_an_id_is_the_same_in_every_version(what: str) -> None:
    """A version that derives another id does not find what an older one stored."""
    derived, pinned = PINNED[what]
    assert derived == pinned


def test_ids_of_different_things_differ() -> None:
    """Kinds, steps and indexes of one run never meet."""
    steps = range(30)
    made = [make(RUN, step) for make in (ids.answer_id, ids.results_id, ids.checkpoint_id) for step in steps]
    made += [make(ANSWER, index) for make in (ids.tool_call_key, ids.wait_id) for index in steps]
    made += [ids.run_id(SESSION, ordinal) for ordinal in steps] + [ids.root_node_id(SESSION)]
    assert len(set(made)) == len(made)


@given(st.lists(texts() | st.integers(), min_size=1, max_size=4))
def test_every_derived_id_is_a_uuid4(parts: list[str | int]) -> None:
    """Whatever it is derived from, it is one by its form, and by the library's own reading."""
    derived = derive_id(*parts)
    assert is_uuid4(derived)
    assert uuid.UUID(derived).version == 4
    assert derived == derive_id(*parts)


def test_the_place_of_a_part_counts() -> None:
    """The same parts in another order, or split otherwise, are another thing."""
    made = [derive_id("a", "b"), derive_id("b", "a"), derive_id("ab"), derive_id("a", "b", ""), derive_id("", "ab")]
    assert all(one != other for one, other in combinations(made, 2))


def test_drawn_ids_are_uuid4s_and_differ() -> None:
    """`new_id` is for what has no parent."""
    assert is_uuid4(new_id())
    assert new_id() != new_id()


@pytest.mark.parametrize(
    "text",
    [
        "",
        SESSION.replace("-", ""),
        SESSION.upper().replace("1", "A"),
        "{" + SESSION[1:-1] + "}",
        "urn:uuid:" + SESSION,
        "11111111-1111-1111-8111-111111111111",
        "11111111-1111-4111-0111-111111111111",
        "11111111-1111-4111-8111-11111111111\x00",
        "1111111--1111-4111-8111-111111111111",
        "１1111111-1111-4111-8111-111111111111",
        " 1111111-1111-4111-8111-11111111111 ",
    ],
)
def test_what_is_no_canonical_uuid4_is_none(text: str) -> None:
    """Another form, version or variant of the same id would be another key."""
    assert not is_uuid4(text)
