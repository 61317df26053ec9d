"""A shop as a stage workflow whose tasks write into the ledger what they do: each effect of each call is a line.

The ledger's name of a session is its id. Seconds may be `HELD`. `PERDURE_TEST_SHOP` names the workflow, so that a test which kills its workers can
have a shop, and a task queue, of its own.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from perdure import App
from perdure.uaip import State, TaskContext, Workflow, stage, task, to, workflow
from tests.integration.agents import HELD, held_until_released, write_ledger

NAME = os.environ.get("PERDURE_TEST_SHOP", "shop")


async def effect(kind: str, context: TaskContext, seconds: float = 0.0, **data: Any) -> None:
    """One effect: a line before the work, which takes a while, and one after it."""
    note: dict[str, Any] = {"effect": kind, "key": context.idempotency_key, "attempt": context.attempt, **data}
    write_ledger("effect", context.session_id, **note)
    await (held_until_released(context.session_id) if seconds == HELD else asyncio.sleep(seconds))
    write_ledger("done", context.session_id, **note)


@stage
class Browse:
    """Look around."""

    @task(effect="none")
    async def search(self, context: TaskContext, words: str, seconds: float = 0.0) -> str:
        """Find something."""
        await effect("none", context, seconds, task="search")
        return f"{words}-1"


@stage
class Cart:
    """Choose."""

    @task(effect="idempotent")
    async def add(self, state: State, context: TaskContext, sku: str, seconds: float = 0.0) -> int:
        """Put one into the cart."""
        await effect("idempotent", context, seconds, task="add")
        items = [*state.get("cart.items", []), sku]
        state.set("cart.items", items)
        return len(items)

    @task
    async def order_sample(self, state: State, context: TaskContext, seconds: float = 0.0) -> str:
        """Have a sample sent; at most one."""
        await effect("at_most_once", context, seconds, task="order_sample")
        state.set("sample", "sent")
        return "sent"

    @task(effect="once")
    async def reserve(self, state: State, context: TaskContext, seconds: float = 0.0) -> str:
        """Have it put aside; never twice."""
        await effect("once", context, seconds, task="reserve")
        state.set("reserved", True)
        return "reserved"


@stage(prerequisites=["cart.items", "user.email"])
class Checkout:
    """Pay."""

    @task(approval="human")
    async def confirm(self, state: State, context: TaskContext, limit: int) -> int:
        """Have a person agree to the price."""
        await effect("at_most_once", context, task="confirm", limit=limit)
        state.set("limit", limit)
        return limit

    @task(effect="once")
    async def pay(self, state: State, context: TaskContext, seconds: float = 0.0) -> str:
        """Pay; never twice."""
        await effect("once", context, seconds, task="pay")
        state.set("receipt", f"for {state.get('user.email')}")
        return "paid"


@stage(prerequisites=["receipt"])
class Done:
    """Everything is bought."""

    @task(effect="none")
    async def receipt(self, state: State) -> str:
        """What was paid."""
        return state.get("receipt")


@workflow(name=NAME)
class Shop:
    """Buy one thing."""

    browse = Browse
    cart = Cart
    checkout = Checkout
    done = Done
    transitions = {browse: [cart], cart: [browse, checkout], checkout: [cart, to(done, keep=["receipt", "limit"])]}


shop: Workflow = Shop
app = App(workflows=[Shop])
