"""The stage machine, case by case; `test_machine_model` walks it at random."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.uaip import stage, to, workflow
from perdure.uaip.action import Action, ActionHead, ActionKind, KeyUse, key_conflict, key_use
from perdure.uaip.decision import Greet, Held, Known, Move, Refused, RunTask, TakeInput
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.machine import commit, decide
from perdure.uaip.offers import WayOn, action_of, offers, ways_on
from perdure.uaip.refusal import Reason, Refusal
from perdure.uaip.session import (
    SessionStatus,
    StageSession,
    begin,
    expire,
    expires_at_ms,
    pause,
    resume,
    terminate,
)
from perdure.uaip.state_change import StateChange
from perdure.uaip.task_outcome import TaskError, TaskOutcome
from tests.unit.uaip.stage_store import DAY_MS, DEFINITION, NOON_MS, SESSION, store_session

ADD = Action(ActionKind.METHOD_CALL, "add", arguments={"sku": "x"})
EMAIL = Action(ActionKind.STATE_INPUT, updates={"user.email": "a@b.c"})
FILLED = {"cart.items": 30, "user.email": 40}


def to_stage(name: str) -> Action:
    return Action(ActionKind.STAGE_TRANSITION, name)


def at(stage_name: str, **changes: object) -> StageSession:
    return replace(store_session(), stage=stage_name, **changes)  # pyright: ignore[reportArgumentType] - checked by replace


def head(action: Action, ordinal: int = 1, at_ms: int = NOON_MS) -> ActionHead:
    return action.head(ordinal, at_ms)


def refusal_of(session: StageSession, action: Action, definition: WorkflowDefinition = DEFINITION) -> Refusal:
    decision = decide(definition, session, head(action))
    assert isinstance(decision, Refused)
    return decision.refusal


def settle(
    session: StageSession, action: Action, outcome: TaskOutcome | None = None, at_ms: int = NOON_MS
) -> StageSession:
    """The session after an action that is decided on and done."""
    decided = decide(DEFINITION, session, head(action, session.taken + 1))
    assert not isinstance(decided, Known | Held)
    return commit(DEFINITION, session, head(action, session.taken + 1), decided, outcome, at_ms=at_ms)


def test_a_session_begins_in_the_initial_stage() -> None:
    session = store_session()
    assert (session.stage, session.version, session.taken, session.status) == ("browse", 0, 0, SessionStatus.OPEN)
    assert session.definition == DEFINITION.sha256


def test_a_task_of_the_current_stage_is_run() -> None:
    decision = decide(DEFINITION, at("select"), head(ADD))
    assert isinstance(decision, RunTask)
    assert (decision.stage, decision.task.name) == ("select", "add")


@pytest.mark.parametrize("name", ["pay", "nope"])
def test_a_task_of_another_stage_is_refused(name: str) -> None:
    refusal = refusal_of(at("select"), Action(ActionKind.METHOD_CALL, name))
    assert (refusal.status, refusal.detail) == (422, f"Task '{name}' not found in stage 'select'")
    assert refusal.more == {"task": name, "available": ["add", "fail"]}


@pytest.mark.parametrize("name", ["browse", "checkout", "done", "nope"])
def test_what_is_no_edge_is_refused(name: str) -> None:
    """The stage itself too; the graph counts before prerequisites."""
    refusal = refusal_of(at("browse"), to_stage(name))
    assert (refusal.status, refusal.detail) == (422, f"Cannot transition from 'browse' to '{name}'")
    assert refusal.more == {"target_stage": name, "allowed": ["select"]}


def test_missing_prerequisites_are_named_as_declared() -> None:
    refusal = refusal_of(at("select"), to_stage("checkout"))
    assert (refusal.reason, refusal.status) == (Reason.MISSING_PREREQUISITES, 422)
    assert refusal.detail == "To transition to 'checkout', please provide: cart.items, user.email"
    assert refusal.more == {"target_stage": "checkout", "missing": ["cart.items", "user.email"]}


def test_prerequisites_count_whoever_wrote_them() -> None:
    """A task the one, the client the other."""
    session = settle(at("select"), ADD, TaskOutcome(change=StateChange(0, {"cart.items": 30})))
    session = settle(session, EMAIL)
    assert decide(DEFINITION, session, head(to_stage("checkout"), 3)) == Move("select", "checkout", StateChange(2))
    assert settle(session, to_stage("checkout")).stage == "checkout"


def test_a_task_that_failed_changes_nothing() -> None:
    before = at("select", sizes={"a": 1}, version=4)
    after = settle(before, ADD, TaskOutcome(error=TaskError("OutOfStock", "none left")))
    assert (after.stage, after.sizes, after.version, after.taken) == ("select", {"a": 1}, 4, 1)


def test_a_change_of_another_version_is_never_taken() -> None:
    with pytest.raises(InvalidInput, match="a change of version 3 of the state does not fit version 4"):
        settle(at("select", version=4), ADD, TaskOutcome(change=StateChange(3, {"a": 1})))


def test_an_outcome_belongs_to_a_task() -> None:
    session = at("select")
    with pytest.raises(InvalidInput, match="has an outcome"):
        commit(DEFINITION, session, head(ADD), Greet(), TaskOutcome(), at_ms=NOON_MS)
    with pytest.raises(InvalidInput, match="has an outcome"):
        settle(session, ADD)


def test_an_action_is_settled_once() -> None:
    """One that comes again is known by its ordinal, whatever became of the session."""
    session = settle(at("select"), ADD, TaskOutcome(change=StateChange(0, {"a": 1})))
    assert decide(DEFINITION, session, head(ADD)) == Known()
    assert decide(DEFINITION, terminate(session), head(ADD)) == Known()


def test_a_paused_session_keeps_actions_waiting() -> None:
    session = pause(at("select"))
    assert decide(DEFINITION, session, head(ADD)) == Held()
    assert isinstance(decide(DEFINITION, resume(session, NOON_MS), head(ADD)), RunTask)


def test_a_session_that_is_paused_while_a_task_runs_keeps_what_it_did() -> None:
    session = at("select")
    decision = decide(DEFINITION, session, head(ADD))
    assert isinstance(decision, RunTask)
    outcome = TaskOutcome(change=StateChange(0, {"a": 1}))
    after = commit(DEFINITION, pause(session), head(ADD), decision, outcome, at_ms=NOON_MS)
    assert (after.status, after.sizes) == (SessionStatus.PAUSED, {"a": 1})


def test_a_session_that_is_ended_while_a_task_runs_keeps_nothing_of_it() -> None:
    session = at("select")
    decision = decide(DEFINITION, session, head(ADD))
    assert isinstance(decision, RunTask)
    outcome = TaskOutcome(change=StateChange(0, {"a": 1}))
    after = commit(DEFINITION, terminate(session), head(ADD), decision, outcome, at_ms=NOON_MS)
    assert (after.status, after.sizes, after.taken) == (SessionStatus.TERMINATED, {}, 1)


def test_a_terminated_session_is_not_found() -> None:
    session = settle(at("done"), Action(ActionKind.TERMINATE_SESSION))
    assert session.status is SessionStatus.TERMINATED
    refusal = refusal_of(replace(session, taken=0), ADD)
    assert (refusal.status, refusal.detail) == (404, "Session not found")
    assert offers(DEFINITION, session) == ()
    assert ways_on(DEFINITION, session) == ()


def test_a_session_expires_a_day_after_its_last_action() -> None:
    session = settle(at("select"), ADD, TaskOutcome(change=StateChange()), at_ms=NOON_MS + 5_000)
    due = NOON_MS + 5_000 + DAY_MS
    assert expires_at_ms(DEFINITION, session) == due
    late, timely = head(ADD, 2, due), head(ADD, 2, due - 1)
    assert isinstance(decide(DEFINITION, session, timely), RunTask)
    refused = decide(DEFINITION, session, late)
    assert isinstance(refused, Refused)
    assert refused.refusal.reason is Reason.SESSION_NOT_FOUND
    assert commit(DEFINITION, session, late, refused, at_ms=due).status is SessionStatus.EXPIRED
    assert expire(DEFINITION, session, due).status is SessionStatus.EXPIRED
    assert expire(DEFINITION, session, due - 1) is session


@pytest.mark.parametrize("action", [to_stage("nope"), Action(ActionKind.METHOD_CALL, "nope")])
def test_a_refused_action_does_not_prolong_a_session(action: Action) -> None:
    """It may be answered where nobody keeps the session's time."""
    session = settle(at("select"), action, at_ms=NOON_MS + 5_000)
    assert (session.settled_at_ms, session.taken) == (NOON_MS, 1)


def test_a_call_whose_arguments_do_not_fit_does_not_prolong_it_either() -> None:
    outcome = TaskOutcome(refusal=Refusal(Reason.INVALID_ARGUMENTS, "no"))
    session = settle(at("select"), ADD, outcome, at_ms=NOON_MS + 5_000)
    assert (session.settled_at_ms, session.taken, session.version) == (NOON_MS, 1, 0)


def test_a_paused_session_does_not_expire() -> None:
    """Its time starts anew when it is resumed."""
    session = pause(store_session())
    assert expires_at_ms(DEFINITION, session) is None
    assert expire(DEFINITION, session, NOON_MS + 9 * DAY_MS) is session
    assert expires_at_ms(DEFINITION, resume(session, NOON_MS + 9 * DAY_MS)) == NOON_MS + 10 * DAY_MS


def test_pause_and_resume_leave_an_ended_session_alone() -> None:
    ended = terminate(store_session())
    assert pause(ended) is resume(ended, NOON_MS) is terminate(ended) is ended
    assert resume(store_session(), NOON_MS + 1) == store_session()


@workflow(inputs=["a", "b", "c", "need"], ttl=60)
class Narrow:
    @stage
    class First:
        pass

    @stage(prerequisites=["need"])
    class Second:
        pass

    transitions = {
        First: [to(Second, keep=["need", "a"]), to(First, keep="none")],
        Second: ["first"],
    }


def test_an_edge_drops_what_it_does_not_keep() -> None:
    session = replace(begin(Narrow.definition, SESSION, NOON_MS), sizes={"b": 1, "a": 2, "need": 3, "c": 4}, version=7)
    decision = decide(Narrow.definition, session, head(to_stage("second")))
    assert isinstance(decision, Move)
    assert decision == Move("first", "second", StateChange(7, {}, ("b", "c")))
    after = commit(Narrow.definition, session, head(to_stage("second")), decision, at_ms=NOON_MS)
    assert (after.stage, after.sizes, after.version) == ("second", {"a": 2, "need": 3}, 8)
    emptied = decide(Narrow.definition, session, head(to_stage("first")))
    assert isinstance(emptied, Move)
    assert emptied.change.deleted == ("a", "b", "c", "need")


@pytest.mark.parametrize(
    ("updates", "says"),
    [
        ({"events": 1}, "Invalid state update: key 'events' is reserved"),
        ({"a": 1, "perdure.x": 1}, "Invalid state update: key 'perdure.x' is reserved"),
        ({"secret": 1}, "key 'secret' is not for clients to write; they may write: a, b, c, need"),
    ],
)
def test_a_key_that_clients_may_not_write(updates: dict[str, int], says: str) -> None:
    session = begin(Narrow.definition, SESSION, NOON_MS)
    refusal = refusal_of(session, Action(ActionKind.STATE_INPUT, updates={**updates}), Narrow.definition)
    assert (refusal.status, refusal.reason) == (422, Reason.KEY_NOT_ALLOWED)
    assert says in refusal.detail


def test_a_state_that_would_be_too_large_is_refused() -> None:
    """Old and new keys together; one that is overwritten counts once."""
    session = at("browse", sizes={"a": 600_000})
    refusal = refusal_of(session, Action(ActionKind.STATE_INPUT, updates={"b": "x" * 500_000}))
    assert (refusal.status, refusal.reason) == (413, Reason.STATE_TOO_LARGE)
    decision = decide(DEFINITION, session, head(Action(ActionKind.STATE_INPUT, updates={"a": "x" * 500_000})))
    assert isinstance(decision, TakeInput)


def test_a_handshake_changes_nothing_but_time() -> None:
    assert decide(DEFINITION, store_session(), head(Action(ActionKind.HANDSHAKE))) == Greet()
    after = settle(store_session(), Action(ActionKind.HANDSHAKE), at_ms=NOON_MS + 1)
    assert after == replace(store_session(), taken=1, settled_at_ms=NOON_MS + 1)


def test_a_session_is_whole_in_its_json_form() -> None:
    """A new execution goes on from it."""
    session = at("select", sizes=dict(FILLED), version=3, taken=9, status=SessionStatus.PAUSED)
    assert StageSession.from_json(session.to_json()) == session
    assert StageSession.from_json(store_session().to_json()) == store_session()


def test_a_definition_is_whole_in_its_json_form() -> None:
    stored = WorkflowDefinition.from_json(DEFINITION.to_json())
    assert stored == DEFINITION
    assert stored.sha256 == DEFINITION.sha256


def test_a_session_stays_on_the_definition_that_it_is_pinned_to() -> None:
    """A redeploy with another graph changes nothing for it, and cannot be taken for its own."""

    @workflow(name="store")
    class Redeployed:
        @stage
        class Landing:
            pass

    session, stored = at("select"), WorkflowDefinition.from_json(DEFINITION.to_json())
    assert Redeployed.definition.sha256 != session.definition
    assert isinstance(decide(stored, session, head(ADD)), RunTask)
    with pytest.raises(InvalidInput, match="use the definition that is stored with the session"):
        decide(Redeployed.definition, session, head(ADD))


def test_a_hash_does_not_depend_on_the_order_of_members_in_schemas() -> None:
    """A database may store an object's members in its own order."""
    stored = WorkflowDefinition.from_json(json.loads(json.dumps(DEFINITION.to_json(), sort_keys=True)))
    assert stored.stage_names == DEFINITION.stage_names
    assert stored.sha256 == DEFINITION.sha256


def test_an_idempotency_key_belongs_to_one_action() -> None:
    same = Action(ActionKind.METHOD_CALL, "add", arguments={"sku": "x"})
    other = Action(ActionKind.METHOD_CALL, "add", arguments={"sku": "y"})
    assert key_use(None, ADD) is KeyUse.NEW
    assert key_use(ADD.sha256, same) is KeyUse.SAME
    assert key_use(ADD.sha256, other) is KeyUse.CONFLICT
    assert key_conflict("k").status == 409


def test_actions_that_differ_in_anything_have_other_hashes() -> None:
    actions = [ADD, EMAIL, to_stage("add"), Action(ActionKind.METHOD_CALL, "add"), Action(ActionKind.HANDSHAKE)]
    actions += [Action(ActionKind.TERMINATE_SESSION), Action(ActionKind.TERMINATE_SESSION, reason="done")]
    assert len({action.sha256 for action in actions}) == len(actions)
    one = Action(ActionKind.STATE_INPUT, updates={"a": {"x": 1, "y": 2}, "b": 1})
    assert one.sha256 == Action(ActionKind.STATE_INPUT, updates={"b": 1, "a": {"y": 2, "x": 1}}).sha256


def test_what_is_offered_is_what_can_be_called() -> None:
    """The stage's tasks as declared, the ways on if there are any, and the end."""
    assert [offer.name for offer in offers(DEFINITION, at("select"))] == [
        "add",
        "fail",
        "transition_stage",
        "terminate_session",
    ]
    assert [offer.name for offer in offers(DEFINITION, at("done"))] == ["receipt", "terminate_session"]
    move = offers(DEFINITION, at("select"))[2]
    assert "Available stages: browse, checkout" in move.description
    target: Any = move.parameters["properties"]
    assert target["target_stage"]["enum"] == ["browse", "checkout"]
    assert "checkout: no description (needs cart.items, user.email)" in str(target)


def test_the_ways_on_say_what_is_missing() -> None:
    assert ways_on(DEFINITION, at("select", sizes={"user.email": 9})) == (
        WayOn("browse", ()),
        WayOn("checkout", ("cart.items",)),
    )


def test_a_call_of_an_offer_is_an_action() -> None:
    assert action_of("transition_stage", {"target_stage": "done"}) == to_stage("done")
    assert action_of("provide_state", {"a": 1}) == Action(ActionKind.STATE_INPUT, updates={"a": 1})
    assert action_of("terminate_session", {"reason": "r"}) == Action(ActionKind.TERMINATE_SESSION, reason="r")
    assert action_of("add", {"sku": "x"}) == ADD
    with pytest.raises(InvalidInput, match="needs 'target_stage'"):
        action_of("transition_stage", {})
