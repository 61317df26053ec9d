"""UAIP's conformance checks 31 to 38: `stage_transition`. The first line of each says what the reference asks for."""

from __future__ import annotations

import pytest

from tests.conformance.uaip_replies import PROVIDE_STATE, expect, seen
from tests.conformance.uaip_server import UaipClient, new_label

NEEDED = ["cart.items", "user.email"]


async def test_check_31_an_edge_leads_on(uaip: UaipClient) -> None:
    """An allowed edge moves: then tasks of the new stage are taken, and those of the old one refused."""
    session = await uaip.open()
    expect(await session.go("select"), 200)
    assert await session.stage() == "select"
    assert await session.result("add_to_cart", product_id="SKU-001") == 1
    expect(await session.call("search", query="pen"), 422)


@pytest.mark.parametrize("stage", ["done", "checkout", "browse", "nowhere", "Select", "select "])
async def test_check_32_what_is_no_edge(uaip: UaipClient, stage: str) -> None:
    """No edge, an unknown stage, or the same stage without an edge to itself: 422, and the stage stays."""
    session = await uaip.open()
    expect(await session.go(stage), 422)
    assert await session.stage() == "browse"


@pytest.mark.parametrize("given", [(), ("cart.items",), ("user.email",)])
async def test_check_33_prerequisites_that_are_missing(uaip: UaipClient, given: tuple[str, ...]) -> None:
    """Without a prerequisite the move is refused, every missing key is named, and the stage stays."""
    session = await uaip.open_in("select")
    if given:
        await session.put(dict.fromkeys(given, "x"))
    response = await session.go("checkout")
    assert uaip.server.form.refuses(response), seen(response)
    assert [key for key in NEEDED if key in response.text] == [key for key in NEEDED if key not in given]
    assert await session.stage() == "select"


async def test_check_34_what_was_missing_can_be_given(uaip: UaipClient) -> None:
    """After `state_input` with the missing keys the same transition succeeds."""
    session = await uaip.open_in("select")
    assert uaip.server.form.refuses(await session.go("checkout"))
    expect(await session.put({"cart.items": ["SKU-001"], "user.email": "a@b.example"}), 200)
    expect(await session.go("checkout"), 200)
    assert (await session.result("pay"))["by"] == "a@b.example"


async def test_check_35_a_task_can_set_what_is_needed(uaip: UaipClient) -> None:
    """A prerequisite that a task has set counts too."""
    session = await uaip.open_in("select")
    await session.result("add_to_cart", product_id="SKU-001", quantity=2)
    assert uaip.server.form.refuses(await session.go("checkout"))
    await session.result("sign_in", email="a@b.example")
    expect(await session.go("checkout"), 200)
    assert await session.stage() == "checkout"


async def test_check_36_the_graph_comes_before_prerequisites(uaip: UaipClient) -> None:
    """A move that is no edge is refused as such, whatever the stage needs."""
    session = await uaip.open()
    response = await session.go("checkout")
    assert uaip.server.form.refuses(response), seen(response)
    assert not [word for word in [*NEEDED, PROVIDE_STATE] if word in response.text]
    assert "checkout" in response.text
    assert await session.stage() == "browse"


async def test_check_37_a_terminal_stage(uaip: UaipClient) -> None:
    """In a terminal stage tasks can be called, every transition is 422, and `terminal` is true."""
    session = await uaip.open_in("select")
    assert expect(await session.call("where"), 200).get("terminal") is False, "no `terminal` in the reply"
    session = await uaip.open_in("done")
    for stage in ("browse", "select", "checkout", "done", "nowhere"):
        expect(await session.go(stage), 422)
    assert await session.stage() == "done"
    assert expect(await session.call("where"), 200).get("terminal") is True


async def test_check_38_there_and_back(uaip: UaipClient) -> None:
    """A way back works, and the state survives it."""
    session, label = await uaip.open(), new_label()
    await session.result("write", key="color", value=label)
    for _ in range(2):
        expect(await session.go("select"), 200)
        await session.result("add_to_cart", product_id="SKU-001")
        expect(await session.go("browse"), 200)
        assert await session.stage() == "browse"
    assert await session.read("color") == label
    assert len(await session.read("cart.items")) == 2
