"""A stage workflow whose tasks are agents' runs; what their models say is told by the task, as in `sub_agents`."""

from __future__ import annotations

import json
from typing import Any

from perdure import App, agent
from perdure.execution import loop
from perdure.uaip import State, stage, task, workflow
from perdure.uaip.action import Action, ActionKind
from perdure.upp import tool
from perdure.upp.providers.scripted import scripted
from tests.integration.agents import write_ledger
from tests.integration.sub_agents import explorer, loner, model_of, scribe

CREW = "crew"


@tool(approval="human")
async def pay(name: str, amount: int) -> str:
    """Pay, once a person has said yes."""
    write_ledger("tool", name, amount=amount)
    return f"paid {amount}"


payer = agent(name="payer", model=scripted(model_of("payer")), tools=[pay], execution=loop(max_iterations=9))


@stage
class Office:
    """Have others work."""

    @task(agent=explorer, save_as="found")
    def explore(self, task: str):
        """Have something found out."""

    @task(agent=explorer, timeout=1)
    def hurry(self, task: str):
        """Have something found out within a second."""

    @task(agent=explorer, approval="human")
    def venture(self, task: str):
        """Have something found out, if a person agrees."""

    @task(agent=scribe, save_as="written")
    def write(self, task: str):
        """Have something written down."""

    @task(agent=loner)
    def wander(self, task: str):
        """Have something done by a strategy of one's own."""

    @task(agent=payer)
    def buy(self, task: str):
        """Have something paid."""

    @task(effect="none")
    def ping(self, state: State) -> str:
        """Answer at once."""
        state.set("pinged", True)
        return "pong"


@workflow(name=CREW)
class Crew:
    """An office."""

    office = Office


app = App(agents=[explorer], workflows=[Crew])


def give(task: str, name: str, *script: Any, **more: Any) -> Action:
    """The action that calls a task, whose agent's model follows a script."""
    told = json.dumps({"name": name, "script": list(script), **more})
    return Action(ActionKind.METHOD_CALL, task, arguments={"task": told})


def note(name: str, key: str, seconds: float = 0.0) -> list[dict[str, Any]]:
    """What the model says to have its tool write into the ledger, and take so long; it may be `agents.HELD`."""
    return [{"tool": "note", "arguments": {"name": name, "key": key, "seconds": seconds}}]
