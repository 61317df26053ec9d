"""Payloads that are too large for a history: stored under a claim, sealed, freed with their session."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.converter import (
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)
from temporalio.worker import Worker

from perdure.errors import DamagedSession, InvalidInput
from perdure.runtime.converter import converter_for
from perdure.runtime.payload_store import PostgresDriver
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import connect_temporal
from perdure.store.agents import AgentRow, register_agents
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.worker.build import perdure_plugin
from tests.integration.sealed_place import forms, make_place, raw_histories
from tests.integration.stack import Stack

SIZE = 2_500_000
"""More than Temporal takes in one payload."""


@activity.defn(name="sealed.echo")
async def echo(text: str) -> str:
    """Give back what was given."""
    return text


@workflow.defn(name="sealed.echo", sandboxed=False)
class Echo:
    """Lets an activity give back its input."""

    @workflow.run
    async def run(self, text: str) -> str:
        return await workflow.execute_activity(echo, text, start_to_close_timeout=timedelta(seconds=60))


async def test_a_payload_of_more_than_two_megabytes_passes_and_is_freed_with_its_session(stack: Stack) -> None:
    """As input and result of a workflow and of an activity; the history holds claims, the database sealed bytes."""
    place = await make_place(stack)
    word = f"marker{uuid.uuid4().hex}"
    text = word + "x" * SIZE
    async with place.connect() as sessions:
        database = sessions.database
        row = AgentRow("nobody", new_id(), "perdure.session", place.queue, {})
        await register_agents(database, sessions.tenant, [row])
        session = await sessions.open("nobody")
        plugin = perdure_plugin(converter_for(database.keyring, database))
        client = await connect_temporal(stack.addresses.temporal, "default", plugins=[plugin])
        key = SessionKey(sessions.tenant, session)
        async with Worker(client, task_queue=place.queue, workflows=[Echo], activities=[echo]):
            async with asyncio.timeout(90):
                said = await client.execute_workflow(Echo.run, text, id=key.workflow_id, task_queue=place.queue)
        assert said == text
        (history,) = (await raw_histories(client, [key.workflow_id])).values()
        assert len(history) < 20_000
        assert b"perdure.postgres" in history
        rows = (await place.dump())["payloads"]
        assert len(rows) > SIZE
        assert not [form for form in forms(word) if form in rows]
        await sessions.delete(session)
        assert (await place.dump())["payloads"] == ""


async def test_a_claim_gets_what_was_stored_under_it_or_nothing(stack: Stack) -> None:
    """Another hash, other bytes under the hash, another session, a claim without a name: refused."""
    place = await make_place(stack)
    async with place.connect() as sessions:
        await _check_claims(sessions)


async def _check_claims(sessions: Sessions) -> None:
    driver = PostgresDriver(sessions.database)
    key = SessionKey(sessions.tenant, new_id())
    target = StorageDriverWorkflowInfo(namespace="default", id=key.workflow_id)
    (payload,) = await converter_for(sessions.database.keyring).encode(["text" * 100])
    context = StorageDriverStoreContext(target)
    (claim,) = await driver.store(context, [payload])
    assert await driver.store(context, [payload]) == [claim], "the same bytes are there once"
    retrieve = StorageDriverRetrieveContext()
    assert await driver.retrieve(retrieve, [claim, claim]) == [payload, payload]
    data: dict[str, Any] = dict(claim.claim_data)
    for wrong in ({**data, "sha256": "0" * 64}, {**data, "session": new_id()}, {"tenant": "t"}):
        with pytest.raises(DamagedSession):
            await driver.retrieve(retrieve, [StorageDriverClaim(wrong)])
    async with sessions.database.driver() as connection:
        await connection.execute("update perdure.payloads set bytes = bytes || '\\x00'::bytea")
    with pytest.raises(DamagedSession, match="hash"):
        await driver.retrieve(retrieve, [claim])
    with pytest.raises(InvalidInput, match="only workflows of sessions"):
        await driver.store(StorageDriverStoreContext(StorageDriverWorkflowInfo(namespace="default", id="x")), [payload])
