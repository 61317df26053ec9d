"""What must hold of a session whatever was killed, read from rows, history and the ledger by fresh connections."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecution

from perdure.runtime.sessions import Sessions
from perdure.store.events import Event, read_events
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.runs import list_runs
from perdure.store.sessions import read_session
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import AssistantMessage, ToolResultMessage
from tests.integration.stack import Stack, eventually

TERMINAL = ("run.completed", "run.failed", "run.cancelled")
FORGETTING_S = 300
"""How long Temporal may take to delete a closed execution: it asks whether it may each 30 s, and then less and less often."""


@dataclass(frozen=True)
class Facts:
    """A session's rows."""

    events: list[Event]
    messages: list[StoredMessage]
    runs: dict[str, str]


async def read_facts(sessions: Sessions, session: str) -> Facts:
    """Everything that the checks below look at."""
    key = SessionKey(sessions.tenant, session)
    row = await read_session(sessions.database, key)
    assert row.current_node is not None
    events: list[Event] = []
    while page := await read_events(sessions.database, key, after=events[-1].seq if events else 0):
        events.extend(page)
    messages = await read_messages(sessions.database, key, row.current_node, discarded=True)
    runs = {run.id: run.status for run in await list_runs(sessions.database, key)}
    return Facts(events, messages, runs)


async def check_session(stack: Stack, session: str, *names: str, storing_s: float = 0.002, gaps: bool = False) -> Facts:
    """Assert what must always hold.

    Args:
        stack: the servers.
        session: its id.
        names: the tests' names in the ledger.
        storing_s: seconds that an answer may take from being there to being stored; in them another execution may buy
            it again, if the worker that has it lives on.
        gaps: places may be free, as calls of a strategy of one's own that run at once leave them.
    """
    async with stack.connect() as sessions:
        facts = await read_facts(sessions, session)
    check_events(facts)
    check_thread(facts.messages, gaps=gaps)
    for name in names:
        check_effects(stack, name)
        check_bought(stack, name, facts.messages, storing_s)
    return facts


def check_events(facts: Facts) -> None:
    """Numbers without gap (but in folded ranges) or repeat; each run started once and ended once."""
    seqs = [event.seq for event in facts.events]
    covered = {n for event in facts.events for n in range(event.folded_from or event.seq, event.seq + 1)}
    assert seqs == sorted(set(seqs))
    assert covered == set(range(1, (seqs or [0])[-1] + 1))
    for run, status in facts.runs.items():
        kinds = [event.type for event in facts.events if event.run == run]
        assert kinds.count("run.started") == 1, (run, kinds)
        ended = [kind for kind in kinds if kind in TERMINAL]
        assert ended == [f"run.{status}"], (run, status, ended)
        steps = [event.step or 0 for event in facts.events if event.run == run and event.type == "step_start"]
        assert steps == sorted(set(steps)), "each step starts once, in order"


def check_thread(messages: list[StoredMessage], *, gaps: bool = False) -> None:
    """Positions without gap; every tool call answered directly after it, in order."""
    assert gaps or [item.position for item in messages] == list(range(len(messages)))
    for item, after in zip(messages, [*messages[1:], None], strict=True):
        if isinstance(item.message, AssistantMessage) and item.message.tool_calls:
            assert after is not None, item
            assert isinstance(after.message, ToolResultMessage), item
            asked = [call.tool_call_id for call in item.message.tool_calls]
            assert asked == [result.tool_call_id for result in after.message.results]


def check_effects(stack: Stack, name: str) -> None:
    """No call of an `at_most_once` or `once` tool was run twice."""
    runs = Counter(
        entry["idempotency"] for entry in stack.entries(name, "tool") if entry["effect"] in ("at_most_once", "once")
    )
    assert all(count == 1 for count in runs.values()), runs


def check_bought(stack: Stack, name: str, messages: list[StoredMessage], storing_s: float) -> None:
    """No answer was bought again once it was stored: its last purchase began before it was there."""
    answers = {item.position: item for item in messages if isinstance(item.message, AssistantMessage)}
    for entry in stack.entries(name, "model"):
        item = answers.get(entry["history"])  # the conversation it was asked over: so long, so far
        if item is not None:
            assert entry["at"] <= item.message.timestamp.timestamp() + storing_s, (entry, item.message.timestamp)


async def executions(sessions: Sessions, workflow_id: str) -> list[WorkflowExecution]:
    """All executions of a workflow, once Temporal's list, which lags, has the one that began last."""
    newest = (await sessions.client.get_workflow_handle(workflow_id).describe()).run_id

    async def listed() -> list[WorkflowExecution]:
        found = [item async for item in sessions.client.list_workflows(f"WorkflowId = '{workflow_id}'")]
        return found if newest in {item.run_id for item in found} else []

    return await eventually(listed, what=f"{workflow_id} in Temporal's list")


async def until_forgotten(sessions: Sessions, workflow_id: str) -> None:
    """Return once Temporal has deleted all executions of a workflow."""

    async def forgotten() -> bool:
        found = sessions.client.list_workflows(f"WorkflowId = '{workflow_id}'")
        return not [one async for one in found]

    await eventually(forgotten, seconds=FORGETTING_S, what=f"the deletion of the executions of {workflow_id}")


async def count_activities(sessions: Sessions, session: str) -> dict[str, int]:
    """How often each regular activity was scheduled, over all executions of a session."""
    counts: Counter[str] = Counter()
    workflow_id = SessionKey(sessions.tenant, session).workflow_id
    for execution in await executions(sessions, workflow_id):
        handle = sessions.client.get_workflow_handle(workflow_id, run_id=execution.run_id)
        async for event in handle.fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                counts[event.activity_task_scheduled_event_attributes.activity_type.name] += 1
    return dict(counts)


async def history_sizes(sessions: Sessions, session: str) -> list[tuple[int, int]]:
    """Events and bytes of each execution of a session, oldest first."""
    workflow_id = SessionKey(sessions.tenant, session).workflow_id
    sizes: list[tuple[Any, int, int]] = []
    for execution in await executions(sessions, workflow_id):
        handle = sessions.client.get_workflow_handle(workflow_id, run_id=execution.run_id)
        events = [event async for event in handle.fetch_history_events()]
        sizes.append((execution.start_time, len(events), sum(event.ByteSize() for event in events)))
    return [(events, size) for _, events, size in sorted(sizes)]
