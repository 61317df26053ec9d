"""Sessions that are saved, on demand and by themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.uap.hooks import AgentStrategy, StepResult
from perdure.uap.persistence import memory, storage_key
from perdure.uap.session import Session, session
from perdure.upp.json_value import loads
from tests.conformance.uap_session_stage import Talker, said


class Broken:
    """An adapter that keeps nothing."""

    async def save(self, key: str, data: str) -> None:
        raise OSError("full")

    async def load(self, key: str) -> str | None:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError


async def test_save_puts_the_document_under_the_sessions_id() -> None:
    adapter = memory()
    made = session(Talker().agent(), persistence=adapter)
    made.metadata["text"] = "\ud800 ü"
    await made.save()
    text = await adapter.load(storage_key(made.id))
    assert text is not None
    assert text.isascii()
    assert loads(text.encode()) == made.to_json()
    assert Session.from_json(text, made.agent).to_json() == made.to_json()


async def test_a_session_without_an_adapter_can_be_saved() -> None:
    made = session(Talker().agent())
    await made.run("one")
    await made.save()


async def test_a_session_saves_itself_at_every_checkpoint_and_turn() -> None:
    """So that a run that was cut off can be gone on with from its last step."""
    adapter, kept = memory(), list[int]()

    async def count(_: int, __: StepResult) -> None:
        text = await adapter.load(storage_key(made.id))
        kept.append(0 if text is None else len(Session.from_json(text, made.agent).checkpoints))

    made = session(Talker(rounds=2).agent(strategy=AgentStrategy(on_step_end=count)), persistence=adapter)
    await made.run("look")
    assert kept == [0, 1, 2]
    text = await adapter.load(storage_key(made.id))
    assert Session.from_json(text, made.agent).to_json() == made.to_json()


async def test_a_restore_is_saved() -> None:
    adapter = memory()
    made = session(Talker().agent(), persistence=adapter)
    await made.run("look")
    await made.restore(made.checkpoints[0].id)
    text = await adapter.load(storage_key(made.id))
    assert Session.from_json(text, made.agent).to_json() == made.to_json()


async def test_a_run_does_not_fail_because_it_could_not_be_saved(caplog: pytest.LogCaptureFixture) -> None:
    made = session(Talker().agent(), persistence=Broken())
    with caplog.at_level(logging.ERROR):
        await made.run("one")
    assert said(made) == ["one", "re: one"]
    assert {record.message for record in caplog.records} == {"session.save_failed"}
    with pytest.raises(OSError, match="full"):
        await made.save()


async def test_metadata_that_is_no_json_cannot_be_saved() -> None:
    made = session(Talker().agent())
    made.metadata["file"] = cast(Any, object())
    with pytest.raises(InvalidInput, match=r"\$.file"):
        await made.save()


async def test_an_older_text_never_comes_after_a_newer_one() -> None:
    """Though the adapter takes its time over the first."""
    first, texts_kept = asyncio.Event(), list[str]()

    class Slow(Broken):
        async def save(self, key: str, data: str) -> None:
            if not first.is_set():
                first.set()
                for _ in range(10):
                    await asyncio.sleep(0)
            texts_kept.append(data)

    made = session(Talker().agent(), persistence=Slow())
    saving = asyncio.create_task(made.save())
    await first.wait()
    made.metadata["newer"] = True
    await made.save()
    await saving
    assert ["newer" in text for text in texts_kept] == [False, True]


CHANGES: list[Callable[[Session], object]] = [
    lambda made: made.run("one"),
    lambda made: made.restore(made.checkpoints[0].id),
]


@pytest.mark.parametrize("change", CHANGES, ids=["run", "restore"])
async def test_a_change_moves_the_date(change: Callable[[Session], Any]) -> None:
    old = session(Talker().agent())
    await old.run("look")
    document = old.to_json() | {"updatedAt": "2001-01-01T00:00:00.000Z"}
    made = Session.from_json(document, old.agent)
    await change(made)
    assert str(made.to_json()["updatedAt"]) > "2002"
    assert made.to_json()["createdAt"] == document["createdAt"]
