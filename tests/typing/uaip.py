# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Typed uses of `perdure.uaip`. Nothing runs this file; `make check` reads it.

A right use must be free of errors. A wrong one is marked with the error it is: if it stops being one, the mark is
unnecessary, and that is an error.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from perdure import agent
from perdure.execution import staged
from perdure.uaip import Retry, State, TaskContext, Workflow, stage, task, to, workflow, workflow_from_json
from perdure.uaip.definition import WorkflowDefinition
from perdure.uap.agent import Agent
from perdure.uap.staged import StagedExecution
from perdure.upp.providers.scripted import scripted

coder = agent(name="coder", model=scripted(["done"]))


@stage
class Browse:
    @task
    def look(self, word: str, state: State) -> list[str]:
        return [word, *state.get("seen", [])]

    @task(effect="none", timeout=timedelta(seconds=3), retry=Retry(3))
    async def count(self, context: TaskContext) -> int:
        return context.attempt

    @task(agent=coder, save_as="review", approval="human")
    def review(self, task: str):
        """Have it reviewed."""

    @task(effect="sometimes")  # pyright: ignore[reportArgumentType]
    def wrong(self) -> None: ...

    @task(agent="coder")  # pyright: ignore[reportArgumentType]
    def wrong_agent(self) -> None: ...


@stage(name="buy", prerequisites=["cart.items"])
class Buy:
    pass


@workflow(ttl=timedelta(hours=1), inputs=["user.email"])
class Store:
    browse = Browse
    buy = Buy
    transitions = {browse: [to(buy, keep=["cart.items"]), to("browse", keep="none")], buy: [browse]}


@workflow
class Plain:
    browse = Browse


async def stages_and_tasks_keep_their_types() -> None:
    assert_type(Browse(), Browse)
    assert_type(Browse().look("pen", State()), list[str])
    assert_type(Store, Workflow)
    assert_type(Plain.definition, WorkflowDefinition)
    assert_type(workflow_from_json("{}", functions={"look": len}, agents=[coder]), Workflow)
    assert_type(staged(Store, max_steps=5), StagedExecution)
    assert_type(agent(model=scripted(["done"]), execution=staged(Store)), Agent)
    staged("store")  # pyright: ignore[reportArgumentType]
    staged(Store, max_steps="5")  # pyright: ignore[reportArgumentType]
    Browse().look(7, State())  # pyright: ignore[reportArgumentType]
    to(Buy, keep=7)  # pyright: ignore[reportArgumentType]
    stage(Browse, name="x")  # pyright: ignore[reportCallIssue]
