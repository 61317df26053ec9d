"""A workflow for agents that walk it by a script, whose tasks note what they are given; and how calls of it are generated."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from perdure.uaip import State, TaskContext, Workflow, stage, task, to, workflow
from perdure.uaip.offers import PROVIDE_STATE, TERMINATE_SESSION, TRANSITION_STAGE
from perdure.upp import JSONValue
from tests.integration import equivalence


@stage
class Shop:
    """Choose."""

    @task(effect="none")
    def put(self, state: State, item: str, times: int = 1) -> list[str]:
        """Put an item into the cart, so many times."""
        equivalence.note("tool", put=item, times=times, had=state.to_json())
        items = [*state.get("cart", []), *[item] * times]
        state.set("cart", items)
        return items

    @task(effect="none")
    async def break_it(self, state: State, why: str) -> None:
        """Write, and fail."""
        equivalence.note("tool", broke=why)
        state.set("cart", "spoilt")
        raise ValueError(why)


@stage(prerequisites=["cart", "name"])
class Desk:
    """Pay."""

    @task(effect="idempotent", retry=2)
    async def put(self, state: State, context: TaskContext, text: str) -> dict[str, JSONValue]:
        """Put a note to the order: another task of that name."""
        equivalence.note("tool", noted=text, had=state.to_json(), call=context.call_id)
        state.set("notes", text * 300)
        state.delete("none")
        return {"cart": state.get("cart"), "notes": text}


@stage
class End:
    """Over."""


@workflow(inputs=["name", "size"])
class Walk:
    """Buy something."""

    shop = Shop
    desk = Desk
    end = End
    transitions = {shop: [desk, end], desk: [to(shop, keep=["cart"]), end], end: []}


WALK: Workflow = Walk

_texts = st.sampled_from(["", "pen", "naïve \x00 \ud800 ☃"])
walk_arguments: dict[str, st.SearchStrategy[Any]] = {
    "put": st.fixed_dictionaries({}, optional={"item": _texts, "times": st.integers(0, 400), "text": _texts}),
    "break_it": st.fixed_dictionaries({"why": _texts}),
    TRANSITION_STAGE: st.fixed_dictionaries(
        {"target_stage": st.sampled_from(["shop", "desk", "desk", "end", "moon", 7])}
    ),
    PROVIDE_STATE: st.fixed_dictionaries({"name": st.sampled_from(["Ada", None, ["x" * 2000]])}) | st.just({"cart": 1}),
    TERMINATE_SESSION: st.fixed_dictionaries({}, optional={"reason": _texts}),
}
"""Of each tool of some stage: what a model may write."""
