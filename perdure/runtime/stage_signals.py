"""Signalling a stage session's workflow, which is started by that if it is closed."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client

from perdure.activities.contracts import ANSWER, STAGE, WAKE, StageInput
from perdure.runtime.temporal import signal_with_start
from perdure.uap.session_key import SessionKey


async def signal_stage(client: Client, key: SessionKey, task_queue: str, name: str, value: Any = None) -> None:
    """Signal a stage session.

    Args:
        client: of Temporal.
        key: the session.
        task_queue: whose workers serve it.
        name: "wake", "answer", "pause", "resume" or "terminate".
        value: of the last three: `id`, by which it is applied once, and `reason`.

    Raises:
        ServerUnavailable: Temporal does not answer.
    """
    await signal_with_start(
        client, STAGE, StageInput(key.tenant, key.session), key.stage_workflow_id, task_queue, name, value
    )


async def wake_stage(client: Client, key: SessionKey, task_queue: str) -> None:
    """Have a stage session look into its inbox.

    Raises:
        ServerUnavailable: Temporal does not answer; the sweep of any worker wakes the session later.
    """
    await signal_stage(client, key, task_queue, WAKE)


async def tell_answered(client: Client, key: SessionKey, task_queue: str) -> None:
    """Have a stage session look at the answer that a person gave; what it is stands in its row. Raises as `wake_stage`."""
    await signal_stage(client, key, task_queue, ANSWER)
