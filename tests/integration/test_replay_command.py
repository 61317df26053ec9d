"""`perdure replay`, and deploys in the middle of runs: what may change, and what a replay finds out before the deploy."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import connect
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.uap.session_key import SessionKey
from tests.acceptance.terminal import Command, Terminal
from tests.integration.stack import Stack, eventually
from tests.integration.waiting import asked

DEADLINE_S = 90
STRATEGY = '''
from perdure.uap.agent_stream import AgentStreamResult


class Twice:
    """Asks its model two times."""

    name = "twice"

    async def execute(self, context):
        first = await context.llm.generate(context.history, context.input)
        return await context.llm.generate(context.history, context.input, *first.messages[1:], "again")

    def stream(self, context):
        raise NotImplementedError
'''
CHANGED_STRATEGY = STRATEGY.replace("        first =", "        await asyncio.sleep(1)\n        first =").replace(
    "from perdure.uap.agent", "import asyncio\n\nfrom perdure.uap.agent"
)
AGENTS = '''
from perdure import App, agent
from perdure.upp import tool
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.upp import ToolCall
from strategies import Twice


@tool(approval="human")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def model(request):
    asked = any(message.type == "assistant" for message in request.messages)
    if request.messages[-1].type == "user" and not asked:
        return Answer("", tool_calls=[ToolCall("c", "pay", {"amount": 3})])
    return Answer("the old answer")


app = App(
    agents=[
        agent(name="clerk", model=scripted(model), tools=[pay], system="Be old."),
        agent(name="own", model=scripted(["one", "two"]), execution=Twice()),
        agent(name="own-payer", model=scripted(model), tools=[pay], execution=Twice()),
    ]
)
'''
NEW_AGENTS = (
    AGENTS.replace("Be old.", "Be new.")
    .replace("the old answer", "the new answer")
    .replace(
        "async def model",
        '@tool\ndef count(text: str) -> int:\n    """Count."""\n    return len(text)\n\n\nasync def model',
    )
    .replace("tools=[pay], system", "tools=[count, pay], system")
    .replace(
        '    return Answer("the new',
        '    if request.messages[-1].text == "Count.":\n        '
        'return Answer("", tool_calls=[ToolCall("d", "count", {"text": "abc"})])\n    return Answer("the new',
    )
)


@dataclass
class Project:
    """A user's folder, with workers and commands of it."""

    stack: Stack
    folder: Path
    name: str
    shell: Terminal
    offline: Terminal
    started: list[Command]

    def write(self, agents: str = AGENTS, strategy: str = STRATEGY) -> None:
        """Put code in place."""
        (self.folder / "agents.py").write_text(agents, encoding="utf-8")
        (self.folder / "strategies.py").write_text(strategy, encoding="utf-8")

    def worker(self) -> Command:
        """A worker of the code that is there now."""
        command = self.shell.start("worker", "agents:app")
        self.started.append(command)
        command.until(lambda: "worker ready" in command.err, DEADLINE_S)
        return command

    def kill(self) -> None:
        """End every worker."""
        for command in self.started:
            if command.code is None:
                os.killpg(command.pid, 9)
                command.wait()

    @asynccontextmanager
    async def sessions(self) -> AsyncGenerator[Sessions]:
        """The project's own sessions."""
        addresses = self.stack.addresses
        async with connect(
            temporal_address=addresses.temporal, database_url=addresses.database_url, tenant=self.name
        ) as sessions:
            yield sessions


@pytest.fixture
def project(stack: Stack) -> Iterator[Project]:
    with tempfile.TemporaryDirectory(prefix="perdure-") as place:
        name = f"replayed-{uuid.uuid4().hex}"
        own = {"PERDURE_TASK_QUEUE": name, "PERDURE_TENANT": name, "PYTHONDONTWRITEBYTECODE": "1"}
        shell = Terminal(stack.forks, Path(place), **{**stack.addressing, **own})
        offline = Terminal(stack.forks, Path(place), PYTHONDONTWRITEBYTECODE="1")
        made = Project(stack, Path(place), name, shell, offline, [])
        made.write()
        yield made
        made.kill()


async def parked(sessions: Sessions, agent: str) -> RunHandle:
    """A run that waits for a person."""
    handle = await sessions.submit(agent, "Pay.")
    await asked(sessions, handle)
    return handle


async def until_listed(sessions: Sessions, count: int) -> None:
    """Return once Temporal's list has so many open executions of the tenant."""

    async def listed() -> bool:
        query = f"ExecutionStatus = 'Running' AND TaskQueue = '{sessions.tenant}'"
        return len([item async for item in sessions.client.list_workflows(query)]) == count

    await eventually(listed, seconds=DEADLINE_S, what=f"{count} open executions in Temporal's list")


def failing(command: Command) -> dict[str, dict[str, Any]]:
    """The difference of each history that does not replay, by agent."""
    return {one["agent"]: one["difference"] for one in command.json["histories"] if not one["ok"]}


async def test_s41_l110_a_changed_strategy_is_found_before_its_deploy(project: Project) -> None:
    """Histories are recorded live, replay offline, and name the first event that changed code would not come to."""
    project.worker()
    async with project.sessions() as sessions:
        closed = await sessions.submit("own", "Go.")
        assert (await closed.result()).response.text == "two"
        workflow = SessionKey(project.name, closed.session).workflow_id
        saved = (await sessions.client.get_workflow_handle(workflow).fetch_history()).to_json()
        for agent in ("clerk", "own-payer"):
            await parked(sessions, agent)
        await until_listed(sessions, 2)
    records = project.folder / "histories"
    live = project.shell(
        "replay", "agents:app", "--live", "--session", closed.session, "--record", str(records), "--json"
    ).json
    assert (live["ok"], live["replayed"], live["failed"]) == (True, 3, 0)
    assert {one["agent"] for one in live["histories"]} == {"clerk", "own", "own-payer"}
    assert sorted(Path(one["file"]).name for one in live["histories"]) == sorted(
        path.name for path in records.iterdir()
    )
    by_hand = project.folder / "saved.json"
    by_hand.write_text(saved, encoding="utf-8")  # as `temporal workflow show --output json` has it
    assert "4 replayed" in project.offline("replay", "agents:app", str(records), str(by_hand)).err
    project.write(strategy=CHANGED_STRATEGY)
    differences = failing(project.offline("replay", "agents:app", str(records), "--json", code=1))
    assert set(differences) == {"own", "own-payer"}
    assert all(
        "is a model call (perdure.generate); this code would set a timer" in d["what"] for d in differences.values()
    )
    assert all(isinstance(difference["event"], int) for difference in differences.values())
    told = project.offline("replay", "agents:app", str(records), code=1)
    assert told.out.count("FAILS  ") == 2
    assert "give the changed one another name" in told.err


async def test_l41_l110_a_deploy_of_prompt_tool_and_agent_wedges_no_run(project: Project) -> None:
    """In the middle of a run: the histories replay, the run goes on with what is new, and so does the session."""
    old = project.worker()
    async with project.sessions() as sessions:
        waiting = [await parked(sessions, agent) for agent in ("clerk", "own-payer")]
        os.killpg(old.pid, 9)
        old.wait()
        await until_listed(sessions, 2)
        project.write(agents=NEW_AGENTS)
        assert project.shell("replay", "agents:app", "--live", "--json").json["replayed"] == 2
        project.worker()
        for handle in waiting:
            (wait,) = await asked(sessions, handle)
            await sessions.answer(wait.id, {"decision": "approve"}, by="ada")
            assert (await handle.result()).response.text == "the new answer"
        later = await sessions.submit("clerk", "Count.", session=waiting[0].session)
        turn = await later.result()
        assert [one.tool_name for one in turn.tool_executions] == ["count"]
        assert turn.response.text == "the new answer"


async def test_a_replay_of_nothing_or_of_something_else_does_not_pass(project: Project) -> None:
    """Exit code 2 with what to do, and 1 for a history whose agent this code has no longer."""
    shell, folder = project.offline, project.folder
    shell("replay", "agents:app", code=2).check_error("--live", "--session")
    shell("replay", "agents:app", "nowhere", code=2).check_error("nowhere", "no file or folder")
    shell("replay", "agents:app", "terminal", code=2).check_error("terminal", "no .json file", "--record")
    shell("replay", "agents:app", "agents.py", code=2).check_error("agents.py", "no JSON")
    (folder / "other.json").write_text("[]", encoding="utf-8")
    shell("replay", "agents:app", "other.json", code=2).check_error(
        "other.json", "no history", "temporal workflow show"
    )
    shell("replay", "agents:app", "--live", code=3).check_error("PERDURE_TEMPORAL_ADDRESS")
    recorded = Path(__file__).parents[1] / "replay" / "histories" / "one_answer.1.json"
    gone = shell("replay", "agents:app", str(recorded), "--json", code=1)
    assert failing(gone)["worker"]["what"].startswith("its agent 'worker' is not in this app, which has clerk, own")
    unknown = str(uuid.uuid4())
    project.shell("replay", "agents:app", "--session", unknown, code=2).check_error(unknown, "no history")
    assert "nothing was replayed" in project.shell("replay", "agents:app", "--live").err
