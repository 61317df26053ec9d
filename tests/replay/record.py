"""Records the histories that `test_replay` replays: `python -m tests.replay.record [NAME...]`, by hand.

Real servers and real workers make them. A history says who made it: process ids, host names, paths in stack traces. All
of that is replaced here. Recording anew is right only when workflow code changes on purpose in a way that old histories
do not survive; then open sessions do not survive it either.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

from temporalio.client import WorkflowHistory

from tests.integration.stack import Stack
from tests.integration.stage_visits import Visit
from tests.replay.agent_scenarios import (
    asks_sub_agents,
    cancelled_by_its_parent,
    cancelled_with_sub_agents,
    debates,
    ended_by_middleware,
    hands_tasks_on,
    is_a_sub_agent,
    own_steps,
    plans,
    reasons_over_executions,
    reasons_with_hooks,
    recovers_by_hook,
    surrounded_over_executions,
    walks_a_workflow,
)
from tests.replay.limit_scenarios import over_its_time, parked_in_its_time
from tests.replay.payment_scenarios import (
    is_paid_beforehand,
    nobody_pays,
    pays_in_another_execution,
    pays_on_its_way,
)
from tests.replay.plain_scenarios import (
    adopted,
    cancelled_by_temporal,
    cancelled_during_a_tool,
    cancelled_during_an_answer,
    client_tool_answered,
    continues_as_new,
    continues_as_new_while_parked,
    failed,
    garbage_signals,
    killed_worker,
    one_answer,
    over_its_limit,
    parked_and_answered,
    paused_and_resumed,
    several_inputs,
    short_calls,
    short_calls_apart,
    short_tools,
    short_tools_apart,
    tools_and_barriers,
)
from tests.replay.playing import RECORDER, Scenario, executions, histories_of, worker
from tests.replay.policy_scenarios import steered_and_rolled_back
from tests.replay.remote_scenarios import asks_remote_agents
from tests.replay.stage_scenarios import (
    stage_actions,
    stage_agents,
    stage_agents_stopped,
    stage_cancelled,
    stage_controlled,
    stage_garbage,
    stage_killed,
    stage_over_executions,
    stage_waits,
)
from tests.replay.wait_scenarios import approval_expired, approved, stopped_by_a_person

FOLDER = Path(__file__).parent / "histories"


SCENARIOS: list[Scenario] = [
    steered_and_rolled_back,
    surrounded_over_executions,
    ended_by_middleware,
    asks_sub_agents,
    hands_tasks_on,
    is_a_sub_agent,
    cancelled_with_sub_agents,
    cancelled_by_its_parent,
    debates,
    own_steps,
    walks_a_workflow,
    reasons_with_hooks,
    recovers_by_hook,
    plans,
    reasons_over_executions,
    one_answer,
    tools_and_barriers,
    short_calls,
    short_tools,
    short_calls_apart,
    short_tools_apart,
    paused_and_resumed,
    cancelled_during_a_tool,
    cancelled_during_an_answer,
    cancelled_by_temporal,
    failed,
    over_its_limit,
    continues_as_new,
    continues_as_new_while_parked,
    parked_and_answered,
    client_tool_answered,
    approved,
    approval_expired,
    stopped_by_a_person,
    asks_remote_agents,
    parked_in_its_time,
    over_its_time,
    is_paid_beforehand,
    pays_on_its_way,
    pays_in_another_execution,
    nobody_pays,
    killed_worker,
    garbage_signals,
    several_inputs,
    adopted,
    stage_actions,
    stage_waits,
    stage_controlled,
    stage_cancelled,
    stage_killed,
    stage_over_executions,
    stage_garbage,
    stage_agents,
    stage_agents_stopped,
]


def anonymous(value: Any) -> Any:
    """A history's JSON without what says on which machine it was made."""
    if isinstance(value, list):
        return [anonymous(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, item in cast("dict[str, Any]", value).items():
        if name in ("identity", "lastWorkerIdentity"):
            made[name] = RECORDER
        elif name == "stackTrace":
            made[name] = ""
        elif name == "taskQueue" and item.get("kind") == "TASK_QUEUE_KIND_STICKY":
            made[name] = {**item, "name": RECORDER}
        else:
            made[name] = anonymous(item)
    return made


def write(name: str, histories: list[WorkflowHistory]) -> None:
    """Write a scenario's executions, one event a line, in place of what was recorded before."""
    for old in FOLDER.glob(f"{name}.*.json"):
        old.unlink()
    for number, history in enumerate(histories, start=1):
        events: list[Any] = anonymous(json.loads(history.to_json()))["events"]
        lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
        (FOLDER / f"{name}.{number}.json").write_text(f'{{"events": [\n{lines}\n]}}\n', encoding="utf-8")


async def record(stack: Stack, names: set[str]) -> None:
    """Play the scenarios of these names, or all, and write what the server kept of them."""
    async with stack.connect() as sessions:
        for scenario in SCENARIOS:
            name = getattr(scenario, "__name__", "")
            if names and name not in names:
                continue
            made = await scenario(stack, sessions)
            if isinstance(made, Visit):
                histories = await histories_of(sessions, made.key.stage_workflow_id)
            else:
                async with worker(stack):  # whatever is still open ends
                    histories = await executions(sessions, made.session)
            write(name, histories)
            sizes = ", ".join(str(len(history.events)) for history in histories)
            sys.stdout.write(f"{name}: {sizes} events\n")


def main() -> None:
    """Record on servers of its own, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder))
        stack.start()
        try:
            asyncio.run(record(stack, set(sys.argv[1:])))
        finally:
            stack.stop()


if __name__ == "__main__":
    main()
