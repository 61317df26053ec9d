"""Stage workflows for the tests of the UAIP door: tasks that fail, wait for the test, wait for a person, and count."""

from __future__ import annotations

import asyncio
from pathlib import Path

from perdure import App
from perdure.uaip import State, TaskContext, stage, task, workflow

DESK = "desk"
ODD = "Ünïcode & 100% #1?"
TTL_S = 3600


def _note(gate: str) -> None:
    with Path(f"{gate}.begun").open("a", encoding="utf-8") as begun:
        begun.write("begun\n")


def _is_open(gate: str) -> bool:
    return Path(gate).exists()


@stage
class Front:
    """Ask and count."""

    @task(effect="none")
    def echo(self, state: State, value: str, times: int = 1) -> str:
        """Say it again."""
        state.set("said", value)
        return value * times

    @task(effect="idempotent")
    def count(self, state: State) -> int:
        """One more."""
        number = int(state.get("count", 0)) + 1
        state.set("count", number)
        return number

    @task(effect="none")
    def fail(self, state: State) -> str:
        """Raise."""
        state.set("lost", True)
        raise ValueError("kaboom")

    @task(effect="none")
    async def hold(self, state: State, gate: str) -> str:
        """Write that it has begun, and return once the test opens the gate: a file."""
        _note(gate)
        while True:
            if _is_open(gate):
                state.set("held", True)
                return "let go"
            await asyncio.sleep(0.02)

    @task(effect="once", approval="human")
    def spend(self, state: State, context: TaskContext, amount: int) -> int:
        """Spend, once a person has said yes."""
        state.set("spent", int(state.get("spent", 0)) + amount)
        return amount


@stage(prerequisites=["user.email"])
class Back:
    """The end."""

    @task(effect="none")
    def bye(self, state: State) -> str:
        """Say goodbye to whom it is."""
        return f"bye {state.get('user.email')}"


@workflow(name=DESK, ttl=TTL_S)
class Desk:
    """A desk with a front and a back."""

    front = Front
    back = Back
    transitions = {front: [back]}


@workflow(name=ODD)
class Odd:
    """One whose name has to be encoded."""

    front = Front


app = App(workflows=[Desk, Odd])
