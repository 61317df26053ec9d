"""Where sessions are kept."""

from __future__ import annotations

from perdure.uap.persistence import memory, storage_key


async def test_what_was_saved_last_is_loaded() -> None:
    adapter = memory()
    await adapter.save("key", "one")
    await adapter.save("key", "two")
    await adapter.save("other", "three")
    assert (await adapter.load("key"), await adapter.load("other")) == ("two", "three")


async def test_what_is_not_there_is_none() -> None:
    assert await memory().load("key") is None


async def test_what_was_deleted_is_gone_and_deleting_nothing_is_no_error() -> None:
    adapter = memory()
    await adapter.save("key", "text")
    await adapter.delete("key")
    await adapter.delete("key")
    assert await adapter.load("key") is None


async def test_adapters_share_nothing() -> None:
    one, other = memory(), memory()
    await one.save("key", "text")
    assert await other.load("key") is None


def test_a_session_is_stored_under_its_id() -> None:
    assert storage_key("s") == "session:s"
