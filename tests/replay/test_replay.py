"""Workflow code of today replays every history that was recorded; and a change of it does not."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from perdure.activities import contracts
from perdure.activities.contracts import SessionInput
from perdure.activities.convert import converter, data_converter
from perdure.errors import PerdureError
from perdure.worker.build import WORKFLOWS, perdure_plugin
from perdure.workflows.sandboxed import SandboxedSessionWorkflow
from perdure.workflows.session import SessionWorkflow
from perdure.workflows.stage import StageWorkflow
from tests.replay.record import FOLDER, RECORDER, SCENARIOS

FILES = sorted(FOLDER.glob("*.json"))
ENDS = {
    "adopted.1": "TERMINATED",
    "cancelled_by_its_parent.1": "CANCELED",
    "cancelled_by_temporal.1": "CANCELED",
    "continues_as_new.1": "CONTINUED_AS_NEW",
    "continues_as_new.2": "CONTINUED_AS_NEW",
    "continues_as_new_while_parked.1": "CONTINUED_AS_NEW",
    "pays_in_another_execution.1": "CONTINUED_AS_NEW",
    "reasons_over_executions.1": "CONTINUED_AS_NEW",
    "surrounded_over_executions.1": "CONTINUED_AS_NEW",
    "surrounded_over_executions.2": "CONTINUED_AS_NEW",
    "walks_a_workflow.1": "CONTINUED_AS_NEW",
    "stage_cancelled.1": "CANCELED",
    "stage_over_executions.1": "CONTINUED_AS_NEW",
}
STATUSES = {
    "cancelled_by_its_parent.1": ["cancelled"],
    "cancelled_by_temporal.1": ["cancelled"],
    "cancelled_with_sub_agents.1": ["cancelled"],
    "cancelled_during_a_tool.1": ["cancelled"],
    "cancelled_during_an_answer.1": ["cancelled"],
    "failed.1": ["failed"],
    "nobody_pays.1": ["failed"],
    "stopped_by_a_person.1": ["failed"],
    "over_its_limit.1": ["failed"],
    "over_its_time.1": ["failed"],
    "debates.1": ["completed", "completed"],
    "steered_and_rolled_back.1": ["cancelled", "cancelled", "completed"],
    "several_inputs.1": ["completed", "failed", "completed"],
}


def load(path: Path, change: tuple[str, str] | None = None) -> WorkflowHistory:
    """A recorded history; with `change`, one text is replaced by another wherever it stands."""
    text = path.read_text(encoding="utf-8")
    if change is not None:
        before, after = change
        assert before in text
        text = text.replace(before, after)
    document: dict[str, Any] = json.loads(text)
    started = document["events"][0]["workflowExecutionStartedEventAttributes"]
    return WorkflowHistory.from_json(started["workflowId"], document)


def events_of(path: Path) -> list[dict[str, Any]]:
    """A history's events as JSON."""
    return cast("list[dict[str, Any]]", json.loads(path.read_text(encoding="utf-8"))["events"])


def decoded(value: Any) -> Iterator[str]:
    """Every text in a JSON value, payloads in clear."""
    if isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            if name in ("data", "encoding") and isinstance(item, str):
                yield base64.b64decode(item).decode("utf-8", "replace")
            else:
                yield from decoded(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from decoded(item)
    elif isinstance(value, str):
        yield value


def results_of(path: Path, activity_type: str) -> list[dict[str, Any]]:
    """What the local activities of a type returned, in order."""
    found: list[dict[str, Any]] = []
    for event in events_of(path):
        details = event.get("markerRecordedEventAttributes", {}).get("details", {})
        if "result" not in details:
            continue
        about, result = (
            json.loads(base64.b64decode(details[part]["payloads"][0]["data"])) for part in ("data", "result")
        )
        if about["activity_type"] == activity_type:
            found.append(result)
    return found


def kinds(path: Path) -> Counter[str]:
    """How often each type of event is in a history."""
    return Counter(event["eventType"].removeprefix("EVENT_TYPE_") for event in events_of(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    """Today's workflow code takes every decision that it took when the history was recorded."""
    await Replayer(workflows=[], plugins=[perdure_plugin()]).replay_workflow(load(path))


CHANGES = [
    ("one_answer.1", f'"{contracts.GENERATE}"', '"perdure.generate_v2"'),
    ("tools_and_barriers.1", f'"{contracts.CALL_TOOL}"', '"perdure.other"'),
    ("paused_and_resumed.1", '"signalName":"pause"', '"signalName":"nothing"'),
    ("cancelled_during_a_tool.1", '"signalName":"cancel"', '"signalName":"wake"'),
    ("client_tool_answered.1", '"signalName":"answer"', '"signalName":"wake"'),
    ("reasons_with_hooks.1", f'"{contracts.CALL_USER}"', '"perdure.call_nobody"'),
    ("stage_killed.1", f'"{contracts.RUN_TASK}"', '"perdure.run_nothing"'),
    ("stage_controlled.1", '"signalName":"pause"', '"signalName":"wake"'),
    ("stage_waits.1", '"signalName":"answer"', '"signalName":"wake"'),
]


@pytest.mark.parametrize(("name", "before", "after"), CHANGES, ids=[name for name, _, _ in CHANGES])
async def test_a_history_of_other_decisions_does_not_replay(name: str, before: str, after: str) -> None:
    """The check bites: code that would have decided otherwise is found out."""
    history = load(FOLDER / f"{name}.json", (before, after))
    with pytest.raises(workflow.NondeterminismError):
        await Replayer(workflows=[], plugins=[perdure_plugin()]).replay_workflow(history)


@workflow.defn(name=contracts.SESSION, sandboxed=False)
class HastySession(SessionWorkflow):
    """A session workflow that does one thing more than the one that was recorded."""

    @workflow.init
    def __init__(self, start: SessionInput) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: SessionInput) -> None:
        await workflow.sleep(1)
        await super().run(start)


def converter_only(workflows: Sequence[type]) -> Replayer:
    """A replayer of other workflows than ours."""
    return Replayer(workflows=workflows, data_converter=data_converter, workflow_failure_exception_types=[PerdureError])


@pytest.mark.parametrize("name", ["one_answer.1", "continues_as_new.2"])
async def test_workflow_code_that_does_something_else_does_not_replay(name: str) -> None:
    """S41: One timer more, and every history says no."""
    replayer = converter_only([HastySession])
    with pytest.raises(workflow.NondeterminismError):
        await replayer.replay_workflow(load(FOLDER / f"{name}.json"))


def test_every_workflow_is_among_those_that_replay() -> None:
    """A workflow without a recorded history would be unguarded."""
    recorded = {events_of(path)[0]["workflowExecutionStartedEventAttributes"]["workflowType"]["name"] for path in FILES}
    assert recorded == {contracts.SESSION, contracts.SANDBOXED_SESSION, contracts.STAGE}
    assert list(WORKFLOWS) == [SessionWorkflow, SandboxedSessionWorkflow, StageWorkflow]


def test_every_scenario_is_recorded() -> None:
    """One file per execution, and none of a scenario that is gone."""
    names = {getattr(scenario, "__name__", "") for scenario in SCENARIOS}
    assert {path.name.split(".")[0] for path in FILES} == names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_history_ends_as_its_name_says(path: Path) -> None:
    """The execution closed, and its runs ended as they were meant to."""
    assert events_of(path)[-1]["eventType"] == f"EVENT_TYPE_WORKFLOW_EXECUTION_{ENDS.get(path.stem, 'COMPLETED')}"
    ended = [result["status"] for result in results_of(path, contracts.END_RUN)]
    no_run_ends = ENDS.get(path.stem) in ("CONTINUED_AS_NEW", "TERMINATED") or path.stem.startswith("stage_")
    assert ended == STATUSES.get(path.stem, [] if no_run_ends else ["completed"])


def test_the_histories_hold_what_they_are_for() -> None:
    """Retries after a kill, parked runs, adopted runs, garbage: each is in the history that is named after it."""
    killed = events_of(FOLDER / "killed_worker.1.json")
    tries = [event.get("activityTaskStartedEventAttributes", {}).get("attempt") for event in killed]
    assert tries.count(2) >= 2
    (begun,) = [result for result in results_of(FOLDER / "adopted.2.json", contracts.BEGIN_RUN) if "frame" in result]
    assert (begun["kind"], begun["source"]) == ("adopted", "history")
    assert kinds(FOLDER / "garbage_signals.1.json")["WORKFLOW_EXECUTION_SIGNALED"] >= 30
    for name in ("parked_and_answered.1", "client_tool_answered.1", "continues_as_new_while_parked.2"):
        waits = [result.get("wait") for result in results_of(FOLDER / f"{name}.json", contracts.RECORD)]
        assert any(waits), name
    for name in ("continues_as_new.2", "continues_as_new_while_parked.2"):
        started = load(FOLDER / f"{name}.json").events[0].workflow_execution_started_event_attributes
        carried = converter.structure(json.loads(started.input.payloads[0].data), SessionInput).carried
        assert carried is not None
        assert carried.frame is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_history_says_nothing_of_where_it_was_made(path: Path) -> None:
    """No process id, host, path or address; each identity is the recorder's."""
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r'"(?:identity|lastWorkerIdentity)":"([^"]*)"', text)) <= {RECORDER}
    assert set(re.findall(r'"stackTrace":"([^"]*)"', text)) <= {""}
    telling = re.compile(r"@|/(?:home|root|tmp|usr|work|Users)\b|\b\d+\.\d+\.\d+\.\d+\b|site-packages")
    assert [found for found in decoded(json.loads(text)) if telling.search(found)] == []
