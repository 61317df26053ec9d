"""Reaching Temporal: connecting, waking a session, signalling it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client, Plugin
from temporalio.common import Priority
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities import contracts
from perdure.activities.contracts import SessionInput, StageInput
from perdure.activities.convert import data_converter
from perdure.errors import ServerUnavailable
from perdure.runtime.converter import converter_for
from perdure.store.database import Database
from perdure.uap.ids import derive_id
from perdure.uap.session_key import SessionKey

CONNECT_SECONDS = 8.0
RPC_TIMEOUT = timedelta(seconds=5)
TASK_TIMEOUT = timedelta(seconds=5)
_LONGEST_FAIRNESS_KEY = 64


async def connect_temporal(
    address: str, namespace: str, *, plugins: Sequence[Plugin] = (), database: Database | None = None
) -> Client:
    """A client that speaks our contracts.

    Args:
        address: of the server.
        namespace: in it.
        plugins: of a worker; the first has the converter.
        database: its keyring seals payloads, and it takes those that are too large for a history. None for a client that
            neither writes nor reads payloads.

    Raises:
        ServerUnavailable: no Temporal server answers within `CONNECT_SECONDS`.
    """
    converter = data_converter if database is None else converter_for(database.keyring, database)
    options: dict[str, Any] = {} if plugins else {"data_converter": converter}
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await Client.connect(address, namespace=namespace, plugins=list(plugins), **options)
    except (RuntimeError, TimeoutError, RPCError) as error:
        raise ServerUnavailable(
            f"Temporal at {address} does not answer: {_first_line(error)}; "
            "is it running? `perdure dev MODULE:APP` starts one"
        ) from error


@dataclass(frozen=True, slots=True)
class SessionAddress:
    """What it takes to wake a session: who it is and which workers serve it."""

    key: SessionKey
    agent: str
    workflow_type: str
    task_queue: str


async def signal_session(client: Client, address: SessionAddress, name: str, value: Any = None) -> None:
    """Signal a session's workflow, starting it if it is closed.

    Raises:
        ServerUnavailable: Temporal does not answer.
    """
    key = address.key
    start = SessionInput(key.tenant, key.session, address.agent)
    await signal_with_start(client, address.workflow_type, start, key.workflow_id, address.task_queue, name, value)


async def signal_with_start(
    client: Client,
    workflow: str,
    start: SessionInput | StageInput,
    id: str,
    task_queue: str,
    signal: str,
    value: Any = None,
) -> None:
    """Signal a workflow, starting it if it is closed.

    Args:
        client: of Temporal.
        workflow: its type.
        start: its input.
        id: its id.
        task_queue: whose workers have it if it is started.
        signal: what it is told.
        value: what the signal holds.

    Raises:
        ServerUnavailable: Temporal does not answer.
    """
    try:
        await client.start_workflow(
            workflow,
            start,
            id=id,
            task_queue=task_queue,
            task_timeout=TASK_TIMEOUT,
            start_signal=signal,
            start_signal_args=[] if value is None else [value],
            rpc_timeout=RPC_TIMEOUT,
            priority=fairness(start.tenant),
        )
    except RPCError as error:
        raise ServerUnavailable(f"Temporal refused the signal {signal!r}: {_first_line(error)}") from error


def fairness(tenant: str) -> Priority:
    """What has the server serve every tenant in turn, however much of one waits.

    The session's activities have the same; its sub-agents and its next executions inherit it.
    """
    short = tenant if len(tenant.encode()) <= _LONGEST_FAIRNESS_KEY else hashlib.sha256(tenant.encode()).hexdigest()
    return Priority(fairness_key=short)


async def wake(client: Client, address: SessionAddress) -> None:
    """Have a session look into its inbox.

    Raises:
        ServerUnavailable: Temporal does not answer; the sweep of any worker wakes the session later.
    """
    await signal_session(client, address, contracts.WAKE)


async def tell_target(client: Client, address: SessionAddress, action: str, run: str, target: str) -> None:
    """Let a session know that an input of its inbox is about the run that is active.

    Args:
        client: of Temporal.
        address: the session.
        action: "steers", "interrupts" or "rolls_back".
        run: the input's own.
        target: the run that it is about. It is cancelled once, however often this is said.

    Raises:
        ServerUnavailable: Temporal does not answer; the sweep of any worker says it later.
    """
    if action == "steers":
        await signal_session(client, address, contracts.STEER)
    else:
        await signal_session(client, address, contracts.CANCEL, {"id": derive_id(run, "interrupt"), "run": target})


async def is_open(client: Client, key: SessionKey) -> bool:
    """Whether a session has an open execution.

    Raises:
        RPCError: Temporal does not answer.
    """
    return await is_running(client, key.workflow_id)


async def is_running(client: Client, workflow: str) -> bool:
    """Whether the workflow of that id has an open execution. Raises RPCError if Temporal does not answer."""
    try:
        found = await client.get_workflow_handle(workflow).describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise
    return found.close_time is None


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
