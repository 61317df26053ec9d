"""The workflows that the checks of UAIP need, as Perdure serves them: `perdure worker tests.conformance.uaip_store:app`.

`store` leads from browse over select and checkout to done. `uaip_reference_store.py` has the same for the reference.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from perdure import App
from perdure.uaip import State, stage, task, workflow

SECOND = "gift shop: wrap & go"
"""A name that has to be percent-encoded in an address."""

BRIEF = "brief"
TTL_S = 1.0


class OutOfStock(Exception):
    """There is none left."""


class Everywhere:
    """What can be asked in any stage."""

    @task(effect="none")
    def read(self, state: State, key: str) -> dict[str, Any]:
        """Whether a key is in the state, and its value."""
        return {"there": state.has(key), "value": state.get(key)}


@stage
class Browse(Everywhere):
    """Look around."""

    @task(effect="none")
    def where(self) -> str:
        """Say which stage this is."""
        return "browse"

    @task(effect="none")
    def search(self, query: str, limit: int = 3) -> dict[str, Any]:
        """Search the shop.

        Args:
            query: words
            limit: at most so many
        """
        found = [{"sku": f"{query}-{number}", "price": number + 0.5, "sold_out": None} for number in range(limit)]
        return {"found": found, "complete": True, "limit": limit}

    @task(effect="none")
    def nothing(self) -> None:
        """Do nothing at once."""

    @task(effect="none")
    async def nothing_later(self) -> None:
        """Do nothing, a little later."""
        await asyncio.sleep(0.001)

    @task
    async def increment(self, state: State) -> int:
        """Count one more, slowly enough to be overtaken."""
        count = state.get("count", 0)
        await asyncio.sleep(0.005)
        state.set("count", count + 1)
        return count + 1

    @task
    def write(self, state: State, key: str, value: str) -> str:
        """Write into the state."""
        state.set(key, value)
        return value

    @task
    def fail(self, state: State) -> str:
        """Write into the state, and raise."""
        state.set("spoilt", "yes")
        raise OutOfStock("none left of SKU-007")


@stage
class Select(Everywhere):
    """Fill the cart."""

    @task(effect="none")
    def where(self) -> str:
        """Say which stage this is."""
        return "select"

    @task
    def add_to_cart(self, state: State, product_id: str, quantity: int = 1) -> int:
        """Put a product into the cart."""
        items = [*state.get("cart.items", []), {"product_id": product_id, "quantity": quantity}]
        state.set("cart.items", items)
        return len(items)

    @task
    def sign_in(self, state: State, email: str) -> str:
        """Say who buys."""
        state.set("user.email", email)
        return email

    @task
    def mark(self, state: State, label: str, times: int) -> int:
        """Do something that can be counted afterwards: in the state, and in a file where there is one."""
        effects = os.environ.get("PERDURE_UAIP_EFFECTS")
        if effects is not None:
            with Path(effects).open("a", encoding="utf-8") as file:
                file.write(f"{label}\n" * times)
        state.set("marks", state.get("marks", 0) + times)
        return times


@stage(prerequisites=["cart.items", "user.email"])
class Checkout(Everywhere):
    """Pay."""

    @task(effect="none")
    def where(self) -> str:
        """Say which stage this is."""
        return "checkout"

    @task
    def pay(self, state: State, method: str = "card") -> dict[str, Any]:
        """Pay for the cart."""
        paid = {"items": state.get("cart.items"), "by": state.get("user.email"), "method": method}
        state.set("order", paid)
        return paid


@stage
class Done(Everywhere):
    """Nothing is left to do."""

    @task(effect="none")
    def where(self) -> str:
        """Say which stage this is."""
        return "done"


@workflow(name="store", description="Buy things.")
class Store:
    browse = Browse
    select = Select
    checkout = Checkout
    done = Done
    transitions = {browse: [select], select: [browse, checkout], checkout: [done]}


@stage
class Wrapping(Everywhere):
    """Wrap a present."""

    @task(effect="none")
    def where(self) -> str:
        """Say which stage this is."""
        return "wrapping"


@workflow(name=SECOND, description="Have things wrapped.")
class GiftShop:
    wrapping = Wrapping


@workflow(name=BRIEF, description="Is over soon.", ttl=TTL_S)
class Brief:
    wrapping = Wrapping


app = App(agents=[], workflows=[Store, GiftShop, Brief])
