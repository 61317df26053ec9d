"""Tasks of stage sessions that are agents' runs: child workflows with sessions of their own."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from perdure.activities.contracts import SANDBOXED_SESSION
from perdure.errors import RunActive
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.sessions import Sessions
from perdure.runtime.shown_stages import action_json, stage_view_json
from perdure.runtime.stage_action import StageAction
from perdure.store.events import Event, read_events
from perdure.store.runs import list_runs
from perdure.store.sessions import read_session
from perdure.store.stages.rows import action_id
from perdure.uaip.action import Action, ActionKind
from perdure.uap.ids import agent_session_id
from perdure.uap.session_key import SessionKey
from tests.integration.agents import HELD
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.stage_crew import CREW, give, note
from tests.scale import allowed_s

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "tests.integration.stage_crew:app"
PING = Action(ActionKind.METHOD_CALL, "ping")


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(stack: Stack, worker: WorkerProcess) -> AsyncGenerator[Sessions]:
    async with stack.connect() as connected:
        yield connected


class Crew:
    """A stage session of the crew."""

    def __init__(self, sessions: Sessions, id: str) -> None:
        self.sessions = sessions
        self.id = id
        self.key = SessionKey(sessions.tenant, id)

    @classmethod
    async def open(cls, sessions: Sessions) -> Crew:
        return cls(sessions, (await sessions.stages.initialize(CREW)).key.session)

    async def submit(self, action: Action) -> StageAction:
        return await self.sessions.stages.submit(self.id, action)

    async def reply(self, handed: StageAction) -> dict[str, Any]:
        """What is answered once the action is settled."""

        async def is_settled() -> bool:
            return (await handed.reply()).body.get("status") not in ("running", "waiting", "paused")

        await eventually(is_settled, what=f"action {handed.row.ordinal} settled")
        return (await handed.reply()).body

    async def do(self, action: Action) -> dict[str, Any]:
        return await self.reply(await self.submit(action))

    async def state(self) -> dict[str, Any]:
        return await self.sessions.stages.state(self.id)

    async def events(self) -> list[Event]:
        return await read_events(self.sessions.database, self.key, after=0)

    def child(self, ordinal: int = 1) -> SessionKey:
        """The agent's session."""
        return SessionKey(self.key.tenant, agent_session_id(self.id, ordinal))

    async def runs(self, ordinal: int = 1) -> list[str]:
        """How the agent's runs stand."""
        return [run.status for run in await list_runs(self.sessions.database, self.child(ordinal))]

    async def until_run(self, status: str, ordinal: int = 1) -> None:
        async def is_so() -> bool:
            return await self.runs(ordinal) == [status]

        await eventually(is_so, what=f"the agent's run {status}")


async def test_an_agents_run_is_the_task(stack: Stack, sessions: Sessions) -> None:
    """Its last words are the result, under the key that the task names; its session says whose it is."""
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    handed = await crew.submit(give("explore", name, note(name, "x"), "gold"))
    reply = await crew.reply(handed)
    assert (reply["status"], reply["task"], reply["result"]) == ("ok", "explore", "gold")
    assert await crew.state() == {"found": "gold"}
    assert await crew.runs() == ["completed"]
    view = await sessions.stages.view(crew.id)
    assert action_json(handed.row, view.definition)["child"] == crew.child().session
    row = await read_session(sessions.database, crew.child())
    assert row.agent == "explorer"
    assert row.metadata == {"stage_session": crew.id, "action": handed.row.id}
    described = await sessions.client.get_workflow_handle(crew.child().workflow_id).describe()
    assert described.parent_id == crew.key.stage_workflow_id
    await check_session(stack, crew.child().session)
    kinds = [event.type for event in await crew.events()]
    assert kinds.count("stage.task_started") == kinds.count("stage.action_settled") == 1


async def test_data_of_a_structured_agent_is_the_result(sessions: Sessions) -> None:
    crew = await Crew.open(sessions)
    assert (await crew.do(give("write", "n", "text")))["result"] == {"said": "checked"}
    assert await crew.state() == {"written": {"said": "checked"}}


async def test_an_agent_with_a_strategy_of_its_own_runs_in_the_sandbox(sessions: Sessions) -> None:
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    assert (await crew.do(give("wander", name, "one", "two", "three")))["status"] == "ok"
    described = await sessions.client.get_workflow_handle(crew.child().workflow_id).describe()
    assert described.workflow_type == SANDBOXED_SESSION


async def test_a_run_that_fails_is_the_tasks_error(sessions: Sessions) -> None:
    """The state stays as it was, and the session goes on."""
    crew = await Crew.open(sessions)
    reply = await crew.do(give("explore", "n", {"error": "CONTENT_FILTERED"}))
    assert reply["status"] == "error"
    assert "CONTENT_FILTERED" in reply["error"]["message"]
    assert await crew.state() == {}
    assert await crew.runs() == ["failed"]
    assert (await crew.do(PING))["result"] == "pong"


async def test_a_run_that_takes_too_long_is_the_tasks_error(stack: Stack, sessions: Sessions) -> None:
    """What it does then is cancelled."""
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    reply = await crew.do(give("hurry", name, note(name, "x", HELD), "never"))
    assert reply["error"]["type"] == "LimitExceeded"
    assert await crew.runs() == ["failed"]
    assert stack.entries(name, "tool_done") == []


async def test_a_run_that_an_operator_cancels_is_the_tasks_error(stack: Stack, sessions: Sessions) -> None:
    """The agent's session is one like any other."""
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    handed = await crew.submit(give("explore", name, note(name, "x", HELD), "never"))
    await stack.until_entries(name, "tool")
    await sessions.cancel(crew.child().session)
    assert (await crew.reply(handed))["error"]["type"] == "Cancelled"
    assert (await crew.do(PING))["status"] == "ok"


async def test_arguments_that_do_not_fit_reach_no_agent(sessions: Sessions) -> None:
    crew = await Crew.open(sessions)
    handed = await crew.submit(Action(ActionKind.METHOD_CALL, "explore", arguments={"task": 7}))
    await crew.reply(handed)
    assert (await handed.reply()).status == 422
    assert await crew.runs() == []


async def test_a_run_may_wait_for_people_of_its_own(stack: Stack, sessions: Sessions) -> None:
    """Meanwhile nothing is held but the two workflows: no activity runs, however long it takes."""
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    handed = await crew.submit(
        give("buy", name, [{"tool": "pay", "arguments": {"name": name, "amount": 20}}], "paid it")
    )
    (wait,) = await eventually(lambda: sessions.waits(crew.child().session), what="the agent's question")
    assert (await handed.reply()).body["status"] == "running"
    view = await sessions.stages.view(crew.id)
    page: Any = stage_view_json(view, {}, await sessions.stages.in_hand(view.row))
    assert (page["in_hand"]["child"], page["wait"]) == (crew.child().session, None)

    async def is_at_rest() -> bool:
        for workflow in (crew.key.stage_workflow_id, crew.child().workflow_id):
            found = await sessions.client.get_workflow_handle(workflow).describe()
            if found.raw_description.pending_activities or found.raw_description.HasField("pending_workflow_task"):
                return False
        return True

    await eventually(is_at_rest, what="no activity in flight")
    await sessions.answer(wait.id, {"decision": "approve"}, by="Ada")
    assert (await crew.reply(handed))["result"] == "paid it"
    assert [entry["amount"] for entry in stack.entries(name, "tool")] == [20]


async def test_a_person_agrees_to_the_run_itself(sessions: Sessions) -> None:
    """Nothing of it begins before; it is told what was agreed to, not what was asked."""
    crew = await Crew.open(sessions)
    handed = await crew.submit(give("venture", "n", "asked"))
    await handed.done()
    assert (await handed.reply()).body["status"] == "waiting"
    assert await crew.runs() == []
    agreed = give("venture", "n", "agreed").arguments
    await sessions.stages.answer(crew.id, handed.row.id, {"approved": True, "arguments": agreed}, by="Ada")
    assert (await crew.reply(handed))["result"] == "agreed"


async def test_pausing_the_stage_session_pauses_no_run(stack: Stack, sessions: Sessions) -> None:
    """The task that runs ends and is answered; what is behind it waits."""
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    first = await crew.submit(give("explore", name, note(name, "x", HELD), "done"))
    await stack.until_entries(name, "tool")
    behind = await crew.submit(PING)
    assert (await sessions.stages.pause(crew.id, wait_s=60)).state == "paused"
    stack.release({"name": name})
    assert (await crew.reply(first))["result"] == "done"
    assert (await behind.reply()).body["status"] == "paused"
    await sessions.stages.resume(crew.id)
    assert (await crew.reply(behind))["result"] == "pong"


async def test_terminating_the_stage_session_cancels_the_run(stack: Stack, sessions: Sessions) -> None:
    """Within two seconds, in the middle of a tool; the action and what is behind it are answered at once."""
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    handed = [await crew.submit(give("explore", name, note(name, "x", HELD), "never")), await crew.submit(PING)]
    await stack.until_entries(name, "tool")
    begun = time.monotonic()
    assert (await sessions.stages.terminate(crew.id, reason="enough", wait_s=60)).state == "terminated"
    await crew.until_run("cancelled")
    assert time.monotonic() - begun < allowed_s(2)
    assert [(await one.reply()).status for one in handed] == [404, 404]
    await check_session(stack, crew.child().session)
    await until_closed(crew)
    with pytest.raises(RequestRefused, match="Session not found"):
        await crew.submit(PING)


async def test_terminating_just_then_leaves_no_run_behind(sessions: Sessions) -> None:
    """Whatever had begun of it: a run that is only queued is withdrawn, one that has begun is cancelled."""
    crews = [await Crew.open(sessions) for _ in range(4)]

    async def cut_off(crew: Crew, after_s: float) -> None:
        await crew.submit(give("explore", "n", "never", latency=60))
        await asyncio.sleep(after_s)  # an offset, not a wait: each session is cut off at another place
        await sessions.stages.terminate(crew.id)
        await until_closed(crew)

    await asyncio.gather(*(cut_off(crew, 0.03 * place) for place, crew in enumerate(crews)))
    for crew in crews:
        assert await crew.runs() in ([], ["cancelled"])


async def test_a_lost_execution_of_the_stage_session_ends_its_run(stack: Stack, sessions: Sessions) -> None:
    """Temporal cancels the child with it; whoever takes the session up answers so, and goes on."""
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    handed = await crew.submit(give("explore", name, note(name, "x", HELD), "never"))
    await stack.until_entries(name, "tool")
    await sessions.client.get_workflow_handle(crew.key.stage_workflow_id).terminate("by hand")
    await crew.until_run("cancelled")
    behind = await crew.submit(PING)
    await sessions.stages.wake(await sessions.stages.find(crew.id))
    assert (await crew.reply(handed))["error"]["type"] == "Cancelled"
    assert (await crew.reply(behind))["result"] == "pong"


async def test_nobody_else_writes_to_the_agent_meanwhile(stack: Stack, sessions: Sessions) -> None:
    """Else whoever acts in the stage session could have the agent say what they like; afterwards it is like any other."""
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    handed = await crew.submit(give("explore", name, note(name, "x", HELD), "gold"))
    await stack.until_entries(name, "tool")
    said = str(give("explore", name, "more").arguments["task"])
    for policy in ("enqueue", "steer", "interrupt"):
        with pytest.raises(RunActive, match="is a task of stage session"):
            await sessions.submit("explorer", said, session=crew.child().session, policy=policy)
    stack.release({"name": name})
    assert (await crew.reply(handed))["result"] == "gold"
    after = await sessions.submit("explorer", said, session=crew.child().session)
    assert (await after.result()).response.text == "more"


async def test_a_session_that_was_there_before_is_not_the_agents(sessions: Sessions) -> None:
    """Its id can be told from the stage session's: what somebody else has opened under it is not used."""
    crew = await Crew.open(sessions)
    said = str(give("explore", "n", "what they like").arguments["task"])
    for ordinal in (1, 2):
        key = action_id(crew.id, ordinal) if ordinal == 1 else None
        run = await sessions.submit("explorer", said, session=crew.child(ordinal).session, create=True, key=key)
        await run.result()
        reply = await crew.do(give("explore", "n", "what they like"))
        assert reply["error"]["type"] == "KeyConflict"
        assert await crew.runs(ordinal) == ["completed"]
    assert await crew.state() == {}


async def test_deleting_the_stage_session_cancels_the_run(stack: Stack, sessions: Sessions) -> None:
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    await crew.submit(give("explore", name, note(name, "x", HELD), "never"))
    await stack.until_entries(name, "tool")
    assert await sessions.stages.delete(crew.id, force=True) == 1
    await crew.until_run("cancelled")


async def test_a_session_that_was_deleted_is_not_begun_again(stack: Stack, sessions: Sessions) -> None:
    name = uuid.uuid4().hex
    crew = await Crew.open(sessions)
    handed = await crew.submit(give("explore", name, note(name, "x", HELD), "never"))
    await stack.until_entries(name, "tool")
    await sessions.delete(crew.child().session, force=True)
    assert (await crew.reply(handed))["error"]["type"] == "Cancelled"
    assert (await crew.do(PING))["result"] == "pong"
    assert await crew.runs() == []
    assert {entry["number"] for entry in stack.entries(name, "model")} == {0}


async def until_closed(crew: Crew) -> None:
    """Return once the stage session's execution has ended: all that it had in hand has, too."""

    async def is_closed() -> bool:
        found = await crew.sessions.client.get_workflow_handle(crew.key.stage_workflow_id).describe()
        return found.close_time is not None

    await eventually(is_closed, what="the execution closed")
