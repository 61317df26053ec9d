"""The example workflows do what they promise, walked as a client walks them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, cast

from perdure.protocols.uaip.reply import Reply
from perdure.uaip import Workflow
from tests.unit.uaip.served_session import ServedSession
from tests.unit.uaip.stage_store import SESSION

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str, attribute: str) -> Workflow:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Workflow, getattr(module, attribute))


class Client:
    """Sends actions to one session of a workflow."""

    def __init__(self, workflow: Workflow) -> None:
        self.served = ServedSession.open(workflow)

    def send(self, action: str, **members: Any) -> Reply:
        return self.served.execute(SESSION, {"workflow_name": self.served.workflow.name, "action": action, **members})

    def call(self, task: str, **args: Any) -> Any:
        return self.send("method_call", task=task, args=args).body.get("result")

    def go(self, stage: str) -> int:
        return self.send("stage_transition", stage=stage).status


def test_the_store_sells() -> None:
    client = Client(example("stage_store", "store"))
    assert [item["sku"] for item in client.call("search_products", words="pen")] == ["SKU-001"]
    assert client.send("method_call", task="pay").status == 422
    assert client.go("cart") == 200
    client.call("add_to_cart", product_id="SKU-001", quantity=2)
    client.call("add_to_cart", product_id="SKU-003")
    assert client.send("method_call", task="add_to_cart", args={"product_id": "nope"}).body["status"] == "error"
    assert client.go("checkout") == 422
    assert client.send("state_input", state_updates={"cart.items": []}).status == 422
    client.send("state_input", state_updates={"user.email": "a@b.c"})
    assert client.go("checkout") == 200
    receipt = client.call("pay")
    assert (receipt["total_eur"], receipt["sent_to"]) == (54.2, "a@b.c")
    assert client.go("done") == 200
    assert client.served.values == {"order.receipt": receipt}


def test_money_is_spent_on_what_was_approved_and_once() -> None:
    """Whether a person is asked is the workflow's part; that nothing goes around it is the definition's."""
    workflow = example("approval_stages", "approval")
    client = Client(workflow)
    decide = workflow.task("review", "decide")
    assert decide is not None
    assert (decide.spec.approval, decide.spec.approval_timeout_s) == ("human", 7 * 86_400)
    assert client.send("state_input", state_updates={"approved": True}).status == 422
    request = {"purpose": "Pens", "supplier": "Shop"}
    assert client.send("method_call", task="write_request", args={**request, "amount_eur": 10_001}).status == 422
    client.call("write_request", **request, amount_eur=20)
    assert client.go("review") == 200
    assert client.go("purchase") == 422
    client.call("decide", verdict="approve", reason="fine")
    assert client.go("draft") == 200
    client.call("write_request", **request, amount_eur=9_000)
    client.go("review")
    assert client.go("purchase") == 422
    client.call("decide", verdict="approve", reason="fine")
    assert client.go("purchase") == 200
    assert client.call("place_order")["amount_eur"] == 9_000
    assert client.send("method_call", task="place_order").body["status"] == "error"
