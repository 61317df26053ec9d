"""The workflow of `uaip_store.py` in the reference's words, served by the reference: runs in its environment, not in ours.

    python uaip_reference_store.py PORT

It imports nothing of this project, and the reference by name, which ours does not have.
"""

import asyncio
import importlib
import os
import sys
from pathlib import Path
from typing import Any, Protocol

from pydantic import create_model

uaip: Any = importlib.import_module("uaip")


class State(Protocol):
    """What a task gets; the reference knows the parameter by the name of this class."""

    def get(self, key: str, default: Any = None) -> Any: ...

    def set(self, key: str, value: Any) -> None: ...

    def has(self, key: str) -> bool: ...


def reading(state: State, key: str) -> dict[str, Any]:
    return {"there": state.has(key), "value": state.get(key)}


KEYS: dict[str, Any] = {"cart.items": (list[Any], ...), "user.email": (str, ...)}
needed: Any = uaip.construct(description="What checkout needs")(create_model("Needed", **KEYS))


@uaip.stage(name="browse")
class Browse:
    """Look around."""

    @uaip.task(description="Whether a key is in the state, and its value.")
    def read(self, state: State, key: str) -> dict[str, Any]:
        return reading(state, key)

    @uaip.task(description="Say which stage this is.")
    def where(self, state: State) -> str:
        return "browse"

    @uaip.task(description="Search the shop.")
    def search(self, state: State, query: str, limit: int = 3) -> dict[str, Any]:
        found = [{"sku": f"{query}-{number}", "price": number + 0.5, "sold_out": None} for number in range(limit)]
        return {"found": found, "complete": True, "limit": limit}

    @uaip.task(description="Do nothing at once.")
    def nothing(self, state: State) -> None:
        pass

    @uaip.task(description="Do nothing, a little later.")
    async def nothing_later(self, state: State) -> None:
        await asyncio.sleep(0.001)

    @uaip.task(description="Count one more, slowly enough to be overtaken.")
    async def increment(self, state: State) -> int:
        count = state.get("count", 0)
        await asyncio.sleep(0.005)
        state.set("count", count + 1)
        return count + 1

    @uaip.task(description="Write into the state.")
    def write(self, state: State, key: str, value: str) -> str:
        state.set(key, value)
        return value

    @uaip.task(description="Write into the state, and raise.")
    def fail(self, state: State) -> str:
        state.set("spoilt", "yes")
        raise LookupError("none left of SKU-007")


@uaip.stage(name="select")
class Select:
    """Fill the cart."""

    @uaip.task(description="Whether a key is in the state, and its value.")
    def read(self, state: State, key: str) -> dict[str, Any]:
        return reading(state, key)

    @uaip.task(description="Say which stage this is.")
    def where(self, state: State) -> str:
        return "select"

    @uaip.task(description="Put a product into the cart.")
    def add_to_cart(self, state: State, product_id: str, quantity: int = 1) -> int:
        items = [*state.get("cart.items", []), {"product_id": product_id, "quantity": quantity}]
        state.set("cart.items", items)
        return len(items)

    @uaip.task(description="Say who buys.")
    def sign_in(self, state: State, email: str) -> str:
        state.set("user.email", email)
        return email

    @uaip.task(description="Do something that can be counted afterwards.")
    def mark(self, state: State, label: str, times: int) -> int:
        with Path(os.environ["PERDURE_UAIP_EFFECTS"]).open("a", encoding="utf-8") as file:
            file.write(f"{label}\n" * times)
        state.set("marks", state.get("marks", 0) + times)
        return times


@uaip.stage(name="checkout", prerequisites=[needed])
class Checkout:
    """Pay."""

    @uaip.task(description="Whether a key is in the state, and its value.")
    def read(self, state: State, key: str) -> dict[str, Any]:
        return reading(state, key)

    @uaip.task(description="Say which stage this is.")
    def where(self, state: State) -> str:
        return "checkout"

    @uaip.task(description="Pay for the cart.")
    def pay(self, state: State, method: str = "card") -> dict[str, Any]:
        paid = {"items": state.get("cart.items"), "by": state.get("user.email"), "method": method}
        state.set("order", paid)
        return paid


@uaip.stage(name="done")
class Done:
    """Nothing is left to do."""

    @uaip.task(description="Whether a key is in the state, and its value.")
    def read(self, state: State, key: str) -> dict[str, Any]:
        return reading(state, key)

    @uaip.task(description="Say which stage this is.")
    def where(self, state: State) -> str:
        return "done"


@uaip.workflow(name="store", description="Buy things.")
class Store:
    browse = Browse
    select = Select
    checkout = Checkout
    done = Done
    transitions = {browse: [select], select: [browse, checkout], checkout: [done]}


if __name__ == "__main__":
    served: Any = Store
    served.run(host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
