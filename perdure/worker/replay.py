"""Replaying: does today's code take every decision that a session's history holds? No server is needed for it.

What a replay runs is workflow code: ours, and strategies of the user's own. Prompts, tools, hooks and models are called in
activities, so a change of them is no difference.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer

from perdure.activities.contracts import STAGE, SessionInput
from perdure.runtime.converter import converter_for
from perdure.store.keyring import NO_KEYS, Keyring
from perdure.uap.app import App
from perdure.worker.build import perdure_plugin
from perdure.worker.replay_difference import Difference, explain


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of one history.

    Attributes:
        history: it.
        agent: whose session it is: a name, or a sub-agent's path; None for a stage session, which calls nothing but
            activities, whatever the app has.
        difference: where this code does something else; None if it does the same throughout.
    """

    history: WorkflowHistory
    agent: str | None
    difference: Difference | None


async def replay(
    app: App, histories: AsyncIterator[WorkflowHistory], *, namespace: str, keyring: Keyring = NO_KEYS
) -> AsyncGenerator[Replayed]:
    """Replay histories one after the other, on the code that is imported in this process.

    Args:
        app: its agents must be those whose sessions these are: a run whose agent is gone goes no further either.
        histories: of sessions, whole or so far.
        namespace: of Temporal, in which they were made.
        keyring: opens sealed payloads.
    """
    replayer = Replayer(
        workflows=[],
        plugins=[perdure_plugin(converter_for(keyring))],
        namespace=namespace,
        runtime=Runtime(telemetry=TelemetryConfig(logging=None)),  # a difference is told by us, and once
    )
    converter = replayer.config(active_config=True).get("data_converter") or DataConverter.default
    async with replayer.workflow_replay_iterator(histories) as results:
        async for result in results:
            context = WorkflowSerializationContext(namespace=namespace, workflow_id=result.history.workflow_id)
            agent = await _agent_of(result.history, converter.with_context(context))
            difference = None if result.replay_failure is None else explain(result.history, result.replay_failure)
            if difference is None and agent is not None and not app.serves(agent):
                served = ", ".join(str(item.name) for item in app)
                what = f"its agent {agent!r} is not in this app, which has {served}; an open run of it would not go on"
                difference = Difference(None, what, "UnknownAgent")
            yield Replayed(result.history, agent, difference)


async def _agent_of(history: WorkflowHistory, converter: DataConverter) -> str | None:
    started = history.events[0].workflow_execution_started_event_attributes
    if started.workflow_type.name == STAGE:
        return None
    (given,) = await converter.decode(started.input.payloads, [SessionInput])
    assert isinstance(given, SessionInput), "asked for"
    return given.agent
