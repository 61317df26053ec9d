"""A shop as a stage workflow, bought from by MCP clients; each effect is a line of the ledger, by the session's id."""

from __future__ import annotations

from perdure import App
from perdure.uaip import State, TaskContext, stage, task, workflow
from tests.integration.agents import held_until_released, write_ledger

NAME = "mcp_shop"


@stage
class Browse:
    """Look around."""

    @task(effect="none")
    async def search(self, words: str) -> list[str]:
        """Find something."""
        return [f"{words}-1", f"{words}-2"]


@stage
class Cart:
    """Choose."""

    @task
    async def add(self, state: State, context: TaskContext, sku: str) -> int:
        """Put one into the cart."""
        write_ledger("added", context.session_id, sku=sku)
        items = [*state.get("cart.items", []), sku]
        state.set("cart.items", items)
        return len(items)

    @task(effect="idempotent", retry=5)
    async def wrap(self, state: State, context: TaskContext) -> str:
        """Wrap it up, which takes until the session is released."""
        write_ledger("wrapping", context.session_id)
        await held_until_released(context.session_id)
        write_ledger("wrapped", context.session_id, key=context.idempotency_key)
        state.set("cart.wrapped", True)
        return "wrapped"

    @task
    async def drop(self, state: State) -> None:
        """Drop it, and say so."""
        state.set("cart.items", "broken")
        raise RuntimeError("it fell down")


@stage(prerequisites=["cart.items", "user.email"])
class Checkout:
    """Pay."""

    @task(effect="once")
    async def pay(self, state: State, context: TaskContext) -> dict[str, str]:
        """Pay."""
        write_ledger("paid", context.session_id)
        state.set("order", "42")
        return {"order": "42", "sent_to": str(state.get("user.email"))}

    @task(approval="human")
    async def borrow(self, amount: int) -> int:
        """Have a person agree to a loan."""
        return amount


@stage(prerequisites=["order"])
class Done:
    """Everything is bought."""


@workflow(name=NAME, inputs=["user.email"])
class Shop:
    """Buy things."""

    browse = Browse
    cart = Cart
    checkout = Checkout
    done = Done
    transitions = {browse: [cart], cart: [browse, checkout], checkout: [done]}


app = App(workflows=[Shop])
