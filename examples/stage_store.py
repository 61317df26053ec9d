"""A store as a UAIP workflow: an agent from outside can look, fill a cart and pay, in this order only.

The definition is all that is here: what a worker will serve and sessions are pinned to. `python examples/stage_store.py`
prints its stages.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from perdure.uaip import State, TaskContext, Workflow, stage, task, to, workflow


class Product(BaseModel):
    sku: str
    name: str
    price_eur: float


class Line(BaseModel):
    sku: str
    quantity: int = Field(ge=1)


class Receipt(BaseModel):
    order: str
    total_eur: float
    sent_to: str


SHELF = [
    Product(sku="SKU-001", name="Fountain pen", price_eur=24.5),
    Product(sku="SKU-002", name="Notebook, dotted", price_eur=7.9),
    Product(sku="SKU-003", name="Ink, blue", price_eur=5.2),
]


class OutOfStock(Exception):
    """There is no product of that number."""


def lines_of(state: State) -> list[Line]:
    return [Line.model_validate(item) for item in state.get("cart.items", [])]


@stage
class Browse:
    """Look at what there is."""

    @task(effect="none", timeout=5, retry=3)
    def search_products(self, words: str, at_most: int = 10) -> list[Product]:
        """Find products by words in their name.

        Args:
            words: one of them has to be in the name.
            at_most: so many are returned.
        """
        found = [item for item in SHELF if any(word in item.name.lower() for word in words.lower().split())]
        return found[:at_most]


@stage
class Cart:
    """Choose what to buy."""

    @task
    def add_to_cart(self, state: State, product_id: str, quantity: int = 1) -> list[Line]:
        """Put a product into the cart."""
        if all(item.sku != product_id for item in SHELF):
            raise OutOfStock(f"there is no product {product_id}")
        lines = [*lines_of(state), Line(sku=product_id, quantity=quantity)]
        state.set("cart.items", lines)
        return lines

    @task
    def empty_cart(self, state: State) -> None:
        """Begin again."""
        state.delete("cart.items")


@stage(prerequisites=["cart.items", "user.email"])
class Checkout:
    """Pay what is in the cart."""

    @task(effect="idempotent", timeout=30, retry=5)
    async def pay(self, state: State, context: TaskContext) -> Receipt:
        """Pay; the same action pays once, however often it is tried."""
        prices = {item.sku: item.price_eur for item in SHELF}
        total = round(sum(prices[line.sku] * line.quantity for line in lines_of(state)), 2)
        receipt = Receipt(order=context.idempotency_key, total_eur=total, sent_to=state.get("user.email"))
        state.set("order.receipt", receipt)
        return receipt


@stage(prerequisites=["order.receipt"])
class Done:
    """Everything is bought."""


@workflow(inputs=["user.email"])
class Store:
    """Buy stationery."""

    browse = Browse
    cart = Cart
    checkout = Checkout
    done = Done
    transitions = {
        browse: [cart],
        cart: [browse, checkout],
        checkout: [cart, to(done, keep=["order.receipt"])],
    }


store: Workflow = Store

if __name__ == "__main__":
    for step in store.definition.stages:
        print(f"{step.name}: {step.description}")
        print(f"  tasks: {', '.join(task.name for task in step.tasks) or 'none'}")
        print(f"  needs: {', '.join(step.prerequisites) or 'nothing'}")
        print(f"  leads to: {', '.join(edge.target for edge in step.transitions) or 'nothing, it is the end'}")
