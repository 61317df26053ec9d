"""UAIP's conformance checks 23 to 30: `method_call`. The first line of each says what the reference asks for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.uaip_replies import expect, seen
from tests.conformance.uaip_server import UaipClient, new_label


async def test_check_23_a_tasks_result_is_json(uaip: UaipClient) -> None:
    """A task of the current stage runs; its result is JSON, not Python."""
    response = await (await uaip.open()).call("search", query="pen", limit=1)
    body = expect(response, 200)
    assert "result" in body, seen(response)
    assert body["result"] == {"found": [{"sku": "pen-0", "price": 0.5, "sold_out": None}], "complete": True, "limit": 1}


async def test_check_24_a_task_of_another_stage_is_not_run(uaip: UaipClient) -> None:
    """A task of another stage is 422 and has no effect."""
    session, label = await uaip.open(), new_label()
    expect(await session.call("mark", label=label, times=1), 422)
    await session.go("select")
    assert await session.marks(label) == 0
    assert not await session.has("marks")
    await session.result("mark", label=label, times=1)
    assert await session.marks(label) == 1


@pytest.mark.parametrize("task", ["nothing_of_that_name", "Where", "where ", "__init__", "transition_stage"])
async def test_check_25_an_unknown_task(uaip: UaipClient, task: str) -> None:
    """An unknown task is 422."""
    expect(await (await uaip.open()).call(task), 422)


@pytest.mark.parametrize("args", [{}, {"label": "x"}, {"times": 1}])
async def test_check_26_an_argument_that_is_missing(uaip: UaipClient, args: dict[str, Any]) -> None:
    """A missing required argument is 422, and the task is not run."""
    session, label = await uaip.open_in("select"), new_label()
    given = args | ({"label": label} if "label" in args else {})
    expect(await session.call("mark", **given), 422)
    assert await session.marks(label) == 0
    assert not await session.has("marks")


@pytest.mark.parametrize(
    "wrong",
    [{"more": 1}, {"times": "2"}, {"times": 1.5}, {"times": True}, {"times": None}, {"times": [1]}, {"label": 1}],
)
async def test_check_27_arguments_are_of_their_types(uaip: UaipClient, wrong: dict[str, Any]) -> None:
    """An unknown argument or a wrong JSON type is 422; a default is filled in."""
    session, label = await uaip.open_in("select"), new_label()
    expect(await session.call("mark", **{"label": label, "times": 1, **wrong}), 422)
    assert await session.marks(label) == 0
    assert not await session.has("marks")
    await session.result("add_to_cart", product_id="SKU-001")
    assert await session.read("cart.items") == [{"product_id": "SKU-001", "quantity": 1}]


async def test_check_28_a_task_that_raises(uaip: UaipClient) -> None:
    """A raising task is 200 with its message; the session goes on, and what the task wrote is not kept."""
    session = await uaip.open()
    await session.result("write", key="before", value="kept")
    response = await session.call("fail")
    assert "none left of SKU-007" in (uaip.server.form.failure(response) or ""), seen(response)
    assert await session.stage() == "browse"
    assert await session.read("before") == "kept"
    assert not await session.has("spoilt"), "what the task wrote before it raised is in the state"
    await session.go("select")
    assert not await session.has("spoilt")


@pytest.mark.parametrize("task", ["nothing", "nothing_later"])
async def test_check_29_tasks_are_plain_or_coroutines(uaip: UaipClient, task: str) -> None:
    """Async and sync tasks both work; None is JSON's null."""
    response = await (await uaip.open()).call(task)
    body = expect(response, 200)
    assert "result" in body, seen(response)
    assert body["result"] is None


async def test_check_30_what_a_task_writes_others_read(uaip: UaipClient) -> None:
    """What a task wrote is there for later tasks, in its own stage and in others of the session."""
    session, label = await uaip.open(), new_label()
    await session.result("write", key="color", value=label)
    assert await session.read("color") == label
    for stage in ("select", "checkout", "done"):
        if stage == "checkout":
            await session.put({"cart.items": [], "user.email": "a@b.example"})
        expect(await session.go(stage), 200)
        assert await session.read("color") == label
