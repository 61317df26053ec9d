"""A store with four stages, as the conformance checks want it: browse, select, checkout, done."""

from __future__ import annotations

from pydantic import BaseModel, Field

from perdure.uaip import State, TaskContext, stage, task, workflow
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.session import StageSession, begin

SESSION = "7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"
NOON_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Product(BaseModel):
    sku: str
    price: float


class OutOfStock(Exception):
    """There is none left."""


@workflow(description="Buy things.")
class Store:
    """Not the description."""

    @stage
    class Browse:
        """Look around."""

        @task(effect="none", timeout=5, retry=3)
        def search(self, query: str, limit: int = 3) -> list[Product]:
            """Search the shop.

            Args:
                query: words
                limit: at most so many
            """
            return [Product(sku=f"{query}-{index}", price=index + 0.5) for index in range(limit)]

    @stage(description="Fill the cart.")
    class Select:
        @task
        async def add(self, state: State, sku: str, quantity: int = Field(default=1, ge=1)) -> int:
            """Put something into the cart."""
            items = state.get("cart.items", [])
            items.append({"sku": sku, "quantity": quantity})
            state.set("cart.items", items)
            return len(items)

        @task
        def fail(self, state: State) -> None:
            """Write, and raise."""
            state.set("cart.items", "spoilt")
            raise OutOfStock("none left")

    @stage(prerequisites=["cart.items", "user.email"])
    class Checkout:
        @task(effect="idempotent", approval="human")
        def pay(self, context: TaskContext, state: State) -> dict[str, str]:
            """Pay."""
            return {"paid": state.get("user.email"), "key": context.idempotency_key}

    @stage
    class Done:
        @task(effect="none")
        def receipt(self) -> str:
            return "thank you"

    transitions = {Browse: [Select], Select: [Browse, Checkout], Checkout: [Done]}


DEFINITION: WorkflowDefinition = Store.definition


def store_session() -> StageSession:
    return begin(DEFINITION, SESSION, NOON_MS)
