"""One stage session for tests of the store, and what clients and activities do with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure.store.database import Database
from perdure.store.events import read_events
from perdure.store.stages.accepting import AcceptedAction, accept_action
from perdure.store.stages.actions import action_page
from perdure.store.stages.control import ControlKind, ControlledSession, control_session
from perdure.store.stages.definitions import ServedWorkflow, find_workflow, register_workflows
from perdure.store.stages.opening import open_session
from perdure.store.stages.rows import ActionRow, StageSessionRow
from perdure.store.stages.running import BegunTask, SettledTask, begin_task, settle_task
from perdure.store.stages.sessions import find_session, read_state
from perdure.store.stages.taking import TakenAction, take_action
from perdure.store.tables import metadata
from perdure.uaip import State, Workflow, stage, task, to, workflow
from perdure.uaip.action import Action, ActionKind
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.uaip.task_run import finish
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONValue

QUEUE = "stage-story"
NOBODY = SessionKey("", "")
OWN = {table.name for table in metadata.sorted_tables if "session_id" in table.c} | {"stage_sessions"}
_TIMES = {
    "stage_sessions": (["expires_at"], "id"),
    "stage_actions": (["accepted_at", "started_at"], "session_id"),
    "stage_waits": (["asked_at", "expires_at", "answered_at"], "session_id"),
    "session_heads": (["touched_at"], "session_id"),
}


@stage
class Cart:
    """Choose."""

    @task(effect="idempotent")
    def add(self, state: State, product: str) -> int:
        """Put a product into the cart."""
        items: list[str] = [*state.get("cart.items", []), product]
        state.set("cart.items", items)
        return len(items)

    @task
    def notify(self) -> str:
        """Tell somebody; at most once."""
        return "told"

    @task(effect="once")
    def order(self, state: State) -> str:
        """Order, once."""
        state.set("ordered", value=True)
        return "ordered"

    @task(approval="human", effect="once")
    def refund(self, amount: int) -> int:
        """Give money back, if somebody approves."""
        return amount


@stage(prerequisites=["cart.items", "user.email"])
class Checkout:
    """Pay."""

    @task(effect="none")
    def total(self) -> int:
        """What it costs."""
        return 1


@workflow(inputs=["user.email", "note"], ttl=timedelta(hours=1))
class Shop:
    """Buy things."""

    cart = Cart
    checkout = Checkout
    transitions = {cart: [checkout], checkout: [to(cart, keep=["user.email"])]}


def call(name: str, **arguments: JSONValue) -> Action:
    """The action that calls a task."""
    return Action(ActionKind.METHOD_CALL, name, arguments=arguments)


def move(stage_name: str) -> Action:
    """The action that goes to a stage."""
    return Action(ActionKind.STAGE_TRANSITION, stage_name)


def provide(**updates: JSONValue) -> Action:
    """The action that writes into the state; `user_email` is `user.email`."""
    return Action(ActionKind.STATE_INPUT, updates={name.replace("_", "."): value for name, value in updates.items()})


@dataclass
class StageStory:
    """One session, and its writes as clients and activities make them."""

    database: Database
    tenant: str
    shop: Workflow = Shop
    key: SessionKey = NOBODY
    served: list[ServedWorkflow] = field(default_factory=list[ServedWorkflow])
    tries: int = 0

    async def open(self, **given: Any) -> StageSessionRow:
        """Serve the workflow and open a session of it."""
        await register_workflows(self.database, self.tenant, [self.shop.definition], QUEUE)
        served = await find_workflow(self.database, self.tenant, self.shop.name)
        assert served is not None
        row = await open_session(self.database, self.tenant, served, **given)
        self.key, self.served = row.key, [served]
        return row

    async def accept(self, action: Action, key: str | None = None) -> AcceptedAction:
        return await accept_action(self.database, self.key, action, idempotency_key=key)

    async def take(self) -> TakenAction:
        return await take_action(self.database, self.key)

    async def start(self, action: Action) -> int:
        """Accept a call and take it; its ordinal."""
        accepted = await self.accept(action)
        taken = await self.take()
        assert (taken.kind, taken.ordinal) == ("task", accepted.row.ordinal), taken
        return taken.ordinal

    async def begin(self, ordinal: int, try_id: str | None = None) -> BegunTask:
        """Begin a try; a new one, unless it is named."""
        self.tries += 1
        return await begin_task(self.database, self.key, ordinal, try_id=try_id or f"execution/{self.tries}")

    async def settle(self, begun: BegunTask, value: JSONValue = None, **values: JSONValue) -> SettledTask:
        """Have a task return, with these values written; `cart_items` is `cart.items`."""
        assert begun.session is not None
        assert begun.row is not None
        assert begun.task is not None
        state = State(begun.values, version=begun.session.version)
        state.update({name.replace("_", "."): one for name, one in values.items()})
        return await settle_task(self.database, self.key, begun.row.ordinal, finish(begun.task, value, state))

    async def fail(self, begun: BegunTask, error: str = "Broken") -> SettledTask:
        """Have a task raise."""
        assert begun.row is not None
        run = TaskRun(error=TaskError(error, "it broke"))
        return await settle_task(self.database, self.key, begun.row.ordinal, run)

    async def do(self, action: Action) -> ActionRow:
        """An action that needs no task, accepted and taken."""
        accepted = await self.accept(action)
        if accepted.wake:
            taken = await self.take()
            assert taken.kind == "settled", taken
        return (await self.actions())[accepted.row.ordinal - 1]

    async def control(self, kind: ControlKind, **given: Any) -> ControlledSession:
        return await control_session(self.database, self.key, kind, **{"control": new_id(), **given})

    async def row(self) -> StageSessionRow:
        found = await find_session(self.database, self.key)
        assert found is not None
        return found

    async def state(self) -> dict[str, Any]:
        return await read_state(self.database, self.key)

    async def actions(self) -> list[ActionRow]:
        return await action_page(self.database, self.key, limit=200)

    async def kinds(self) -> list[str]:
        """The types of the events, without what all have."""
        events = await read_events(self.database, self.key, after=0)
        assert {event.source for event in events} == {"stage"}
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        return [event.type.removeprefix("stage.") for event in events]

    async def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of the session but the head's time: equal before and after what changed nothing."""
        found: dict[str, list[dict[str, Any]]] = {}
        async with self.database.driver() as connection:
            for table in sorted(OWN):
                own = "id" if table == "stage_sessions" else "session_id"
                query = f"select to_json(t)::text from perdure.{table} t where tenant_id = $1 and {own} = $2 order by 1"
                found[table] = [json.loads(row[0]) for row in await connection.fetch(query, *self.key)]
        for head in found["session_heads"]:
            del head["touched_at"]
        return found

    async def let_pass(self, seconds: float) -> None:
        """Have everything of the session been so much earlier."""
        async with self.database.driver() as connection:
            for table, (columns, own) in _TIMES.items():
                moved = ", ".join(f"{name} = {name} - make_interval(secs => $3)" for name in columns)
                query = f"update perdure.{table} set {moved} where tenant_id = $1 and {own} = $2"
                await connection.execute(query, *self.key, seconds)
            await connection.execute(
                "update perdure.stage_sessions set settled_at_ms = settled_at_ms - $3 where tenant_id = $1 and id = $2",
                *self.key, int(seconds * 1000),
            )  # fmt: skip
