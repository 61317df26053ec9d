"""A store as a UAIP workflow: an agent from outside can look, fill a cart and pay, in this order only.

Its App serves a second workflow, sending goods back, which is the JSON document beside this file: one of its tasks is a
function of ours, one an HTTP call to a carrier (`carrier.py` is one for this machine). `python examples/stage_store.py`
prints the stages of both. To serve them, from the project's folder:

    python examples/carrier.py &
    perdure dev examples.stage_store:app

and in another terminal, as an agent would, with nothing but HTTP:

    api=http://127.0.0.1:8700
    curl -s $api/api/workflows/store
    session=$(curl -s $api/initialize --json '{"workflow_name": "store"}' | jq -r .session_id)
    act() { curl -s $api/execute -H "X-Session-Id: $session" --json "$1"; }
    act '{"workflow_name": "store", "action": "method_call", "task": "search_products", "args": {"words": "pen"}}'
    act '{"workflow_name": "store", "action": "stage_transition", "stage": "cart"}'
    act '{"workflow_name": "store", "action": "method_call", "task": "add_to_cart", "args": {"product_id": "SKU-001"}}'
    act '{"workflow_name": "store", "action": "stage_transition", "stage": "checkout"}'
    act '{"workflow_name": "store", "action": "state_input", "state_updates": {"user.email": "ada@example.org"}}'
    act '{"workflow_name": "store", "action": "stage_transition", "stage": "checkout"}'
    act '{"workflow_name": "store", "action": "method_call", "task": "pay"}'
    act '{"workflow_name": "store", "action": "stage_transition", "stage": "done"}'

The first way to the checkout is refused, and the answer says what is missing. Sending it back:

    session=$(curl -s $api/initialize --json '{"workflow_name": "goods_return"}' | jq -r .session_id)
    act '{"workflow_name": "goods_return", "action": "method_call", "task": "find_order", "args": {"order": "A-1001"}}'
    act '{"workflow_name": "goods_return", "action": "stage_transition", "stage": "label"}'
    act '{"workflow_name": "goods_return", "action": "method_call", "task": "order_label", "args": {"weight_kg": 0.4}}'

Where the API wants keys, each `curl` also has `-H "Authorization: Bearer $PERDURE_KEY"`.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, Field

from perdure import App
from perdure.uaip import State, TaskContext, Workflow, stage, task, to, workflow, workflow_from_json


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

# -- sending goods back: a workflow from a document ----------------------------------------------------------

DOCUMENT = Path(__file__).with_name("stage_document.json")
CARRIER = os.environ.get("CARRIER_URL", "http://127.0.0.1:9400")
SOLD = {"A-1001": [Line(sku="SKU-001", quantity=1)], "A-1002": [Line(sku="SKU-002", quantity=3)]}


class UnknownOrder(Exception):
    """Nothing was sold under that number."""


def find_order(state: State, order: str) -> list[Line]:
    """Find what was sold under an order's number; it is the order that goods are sent back of from then on."""
    if order not in SOLD:
        raise UnknownOrder(f"there is no order {order}")
    state.set("order", order)
    return SOLD[order]


def load_return() -> Workflow:
    """The document, with the carrier's address of this deployment."""
    text = DOCUMENT.read_text(encoding="utf-8").replace("https://carrier.example", CARRIER)
    return workflow_from_json(text, functions={"find_order": find_order})


goods_return = load_return()

app = App(workflows=[store, goods_return])

if __name__ == "__main__":
    for served in app.workflows:
        print(f"{served.name}: {served.definition.description}")
        for step in served.definition.stages:
            print(f"  {step.name}: {step.description}")
            print(f"    tasks: {', '.join(task.name for task in step.tasks) or 'none'}")
            print(f"    needs: {', '.join(step.prerequisites) or 'nothing'}")
            print(f"    leads to: {', '.join(edge.target for edge in step.transitions) or 'nothing, it is the end'}")
