"""Durable sessions as documents: copies in the user's own adapter, and documents that are gone on with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
import pytest_asyncio

from perdure import session
from perdure.errors import InvalidInput
from perdure.uap.persistence import memory
from perdure.uap.session import Session
from tests.conformance.uap_session_stage import example, said
from tests.integration.durable_talkers import AGENTS, TALKS, runs, shape
from tests.integration.serving import serving
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def worker(stack: Stack) -> AsyncGenerator[None, None]:
    async with serving(stack, "durable_sessions", AGENTS):
        yield


async def test_metadata_is_written_by_key(stack: Stack) -> None:
    """So that what others wrote beside stays."""
    async with stack.connect():
        one = session(TALKS, metadata={"a": 1, "b": [1], "gone": True})
        await one.run("one")
        other = session(TALKS, id=one.id)
        await other.refresh()
        assert other.metadata == {"a": 1, "b": [1], "gone": True}
        one.metadata["b"] = [1, 2]
        del one.metadata["gone"]
        other.metadata["c"] = "other's"
        await other.save()
        await one.save()
        assert one.metadata == {"a": 1, "b": [1, 2], "c": "other's"}
        await other.refresh()
        assert other.metadata == one.metadata
        one.metadata["file"] = cast(Any, object())
        with pytest.raises(InvalidInput, match=r"\$.file"):
            await one.run("two")


async def test_a_copy_goes_to_the_user_s_own_adapter(stack: Stack) -> None:
    adapter = memory()
    async with stack.connect():
        chat = session(TALKS, persistence=adapter)
        await chat.run("one")
        saved = await adapter.load(f"session:{chat.id}")
        assert saved is not None
        assert Session.from_json(saved, TALKS).to_json() == chat.to_json()


async def test_a_document_is_stored_by_the_first_awaited_call(stack: Stack) -> None:
    here = session(TALKS)
    await runs(here)
    async with stack.connect() as sessions:
        chat = Session.from_json(here.to_json(), TALKS)
        assert shape(chat) == shape(here)
        await chat.run("three")
        assert said(chat) == [*said(here), "three", "re: three"]
        assert chat.to_json() == await sessions.document(chat.id)


async def test_the_specification_s_example_is_gone_on_with(stack: Stack) -> None:
    """Source: UAP-1.0 section 13.5. Its ids are no UUIDs, and stay."""
    async with stack.connect():
        chat = Session.from_json(example(), TALKS)
        await chat.run("go on")
        assert chat.id == "sess_abc123"
        assert chat.thread_tree.current.id == "node_branch1"
        assert said(chat)[-2:] == ["go on", "re: go on"]


async def test_a_document_of_a_stored_session_is_attached_if_it_is_the_same(stack: Stack) -> None:
    async with stack.connect():
        chat = session(TALKS)
        await chat.run("one")
        document = chat.to_json()
        same = Session.from_json(document, TALKS)
        await same.run("two")
        assert said(same) == ["one", "re: one", "two", "re: two"]
        with pytest.raises(InvalidInput, match="id"):
            await Session.from_json(document, TALKS).run("three")
