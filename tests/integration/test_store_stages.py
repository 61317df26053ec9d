"""Stage sessions on a real PostgreSQL: actions in one order, each settled once, whatever is repeated or comes at the same time."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace

import pytest
import pytest_asyncio

from perdure.errors import DamagedSession, InvalidInput, KeyConflict, QueueFull
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.addresses import find_keyring
from perdure.store.database import Database
from perdure.store.stages import accepting
from perdure.store.stages.actions import action_page, find_action, find_by_key
from perdure.store.stages.definitions import find_workflow, list_workflows, read_definition, register_workflows
from perdure.store.stages.expiry import mark_expired
from perdure.store.stages.opening import open_session
from perdure.store.stages.rows import stage_key
from perdure.store.stages.sessions import delete_session, find_session, read_state, session_page
from perdure.uaip.action import Action, ActionKind
from perdure.uaip.refusal import Reason
from perdure.uaip.session import SessionStatus
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.redaction import known_secrets
from tests.integration.access_stage import own_database
from tests.integration.stack import Stack
from tests.integration.stage_story import QUEUE, Shop, StageStory, call, move, provide
from tests.integration.store_story import CONNECTIONS

pytestmark = pytest.mark.asyncio(loop_scope="module")

GREET = Action(ActionKind.HANDSHAKE)
END = Action(ActionKind.TERMINATE_SESSION, reason="done with it")


@pytest.fixture(scope="module")
def url(stack: Stack) -> Iterator[str]:
    """A database that no process sweeps, which would end the sessions that expire here."""
    with own_database(stack) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(url: str) -> AsyncGenerator[Database]:
    opened = Database(url, pool_size=CONNECTIONS, keyring=find_keyring())
    yield opened
    await opened.close()


@pytest.fixture
def story(database: Database) -> StageStory:
    """A tenant without anything."""
    return StageStory(database, f"tenant-{uuid.uuid4().hex}")


async def refusal_of(story: StageStory, action: Action, key: str | None = None) -> Reason:
    with pytest.raises(RequestRefused) as caught:
        await story.accept(action, key)
    return caught.value.refusal.reason


async def test_the_last_worker_of_a_name_is_who_serves_it(story: StageStory) -> None:
    """A new definition of a workflow is what new sessions get; the old one can still be read."""
    first, second = Shop.definition, replace(Shop.definition, description="Buy other things.")
    await register_workflows(story.database, story.tenant, [first], QUEUE)
    await register_workflows(story.database, story.tenant, [second, replace(first, name="another")], "queue-2")
    served = await find_workflow(story.database, story.tenant, "shop")
    assert served is not None
    assert (served.definition, served.sha256, served.task_queue) == (second, second.sha256, "queue-2")
    assert await read_definition(story.database, story.tenant, first.sha256) == first
    assert [one.definition.name for one in await list_workflows(story.database, story.tenant)] == ["another", "shop"]
    found = await list_workflows(story.database, story.tenant, search="OTHER THINGS")
    assert [one.definition.name for one in found] == ["shop"]
    for name in ("nowhere", "sh\0op", "sh\ud800op"):
        assert await find_workflow(story.database, story.tenant, name) is None
    assert await find_workflow(story.database, "somebody-else", "shop") is None
    with pytest.raises(DamagedSession, match="stored no more"):
        await read_definition(story.database, "somebody-else", first.sha256)


async def test_a_definition_with_a_secret_is_not_stored(story: StageStory) -> None:
    """Clients may read definitions: one that has a secret in it is refused, with all that comes with it."""
    secret = f"sk-{uuid.uuid4().hex}"
    known_secrets.register("shop-key", secret)
    leaky = replace(Shop.definition, name="leaky", description=f"Use {secret}.")
    with pytest.raises(InvalidInput, match="'leaky' has a secret"):
        await register_workflows(story.database, story.tenant, [Shop.definition, leaky], QUEUE)
    assert await list_workflows(story.database, story.tenant) == []


async def test_a_session_is_opened_once(story: StageStory) -> None:
    """The same key or id is the same session; with other values it is a conflict."""
    row = await story.open(key="k", values={"user.email": "a@b.c"})
    assert (row.session.stage, row.session.status, row.session.version) == ("cart", "open", 1)
    assert (row.task_queue, row.last_seq, row.open_actions) == (QUEUE, 1, 0)
    assert await story.state() == {"user.email": "a@b.c"}
    before = await story.rows()
    for given in ({"key": "k"}, {"id": row.key.session}):
        assert (await story.open(**given, values={"user.email": "a@b.c"})).key == row.key
        with pytest.raises(KeyConflict):
            await story.open(**given)
    other = replace(story.served[0], definition=replace(Shop.definition, name="other"))
    with pytest.raises(KeyConflict):
        await open_session(story.database, story.tenant, other, key="k", values={"user.email": "a@b.c"})
    for values in ({"events": 1}, {"a": "x" * 1_000_000}):
        with pytest.raises(InvalidInput):
            await story.open(values=values)
    assert await story.rows() == before
    assert len({row.key for row in await asyncio.gather(*(story.open(key="many") for _ in range(8)))}) == 1


async def test_an_action_without_a_task_is_settled_where_it_is_taken(story: StageStory) -> None:
    """Inputs and moves are decided, kept and answered in one transaction; taking again finds nothing."""
    await story.open(values={"cart.items": ["book"], "note": "x"})
    assert (await story.accept(provide(user_email="a@b.c"))).wake
    taken = await story.take()
    assert (taken.kind, taken.action, taken.status, taken.http) == ("settled", "state_input", "ok", 200)
    assert (await story.take()).kind == "none"
    moved = await story.do(move("checkout"))
    assert moved.reply is not None
    assert (moved.stage, moved.to_stage, moved.reply.body["current_stage"]) == ("cart", "checkout", "checkout")
    assert moved.reply.body["action_id"] == moved.id
    await story.do(move("cart"))
    row = await story.row()
    assert (row.session.stage, row.session.version, row.session.taken, row.open_actions) == ("cart", 3, 3, 0)
    assert await story.state() == {"user.email": "a@b.c"}, "the way back keeps no more"
    assert set(row.session.sizes) == {"user.email"}
    settled = ["action_accepted", "action_settled"]
    assert await story.kinds() == ["opened", *settled, *["action_accepted", "moved", "action_settled"] * 2]


async def test_what_is_refused_as_it_comes_needs_no_workflow(story: StageStory) -> None:
    """With nothing before it a refusal is settled at once; behind another action it waits for that one."""
    await story.open()
    refused = await story.accept(move("checkout"))
    assert (refused.wake, refused.row.state) == (False, "settled")
    assert refused.row.reply is not None
    assert (refused.row.reply.status, refused.row.reply.body["missing"]) == (422, ["cart.items", "user.email"])
    assert (await story.take()).kind == "none"
    ordinal = await story.start(call("add", product="book"))
    waiting = await story.accept(call("nothing"))
    assert (waiting.wake, waiting.row.state) == (True, "queued")
    await story.settle(await story.begin(ordinal), 1, cart_items=["book"])
    assert ((await story.take()).kind, (await story.take()).kind) == ("settled", "none")
    assert [row.status for row in await story.actions()] == ["input_required", "ok", "error"]
    assert (await story.row()).session.taken == 3


async def test_an_idempotency_key_is_one_action(story: StageStory) -> None:
    """The same action again is the first one, before and after it is settled and after the end; another one is refused."""
    await story.open()
    first = await story.accept(provide(note="x"), "k")
    again = await story.accept(provide(note="x"), "k")
    assert (again.row, again.repeated, again.wake, again.news) == (first.row, True, True, False)
    await story.take()
    settled = await story.accept(provide(note="x"), "k")
    assert (settled.row.id, settled.row.status, settled.wake) == (first.row.id, "ok", False)
    assert await refusal_of(story, provide(note="y"), "k") is Reason.KEY_CONFLICT
    await story.accept(END, "end")
    await story.take()
    before = await story.rows()
    assert (await story.accept(END, "end")).row.status == "terminated"
    assert await refusal_of(story, GREET) is Reason.SESSION_NOT_FOUND
    assert await refusal_of(story, GREET, "new") is Reason.SESSION_NOT_FOUND
    assert await story.rows() == before
    assert await find_by_key(story.database, story.key, "k") == settled.row
    assert await find_by_key(story.database, story.key, "never") is None
    with pytest.raises(InvalidInput):
        await story.accept(GREET, "k\n")


async def test_fifty_actions_at_once_are_in_one_order(story: StageStory) -> None:
    """Each gets an ordinal and its events' numbers without gap or repeat, while they are taken; each is settled once."""
    await story.open()

    async def drain() -> int:
        count = 0
        while count < 25 and (taken := await story.take()).kind != "gone":
            count += taken.kind == "settled"
            await asyncio.sleep(0)
            if taken.kind == "none" and len(await story.actions()) == 50:
                break
        return count

    accepting_all = [story.accept(provide(note=str(n)), f"k{n}" if n % 2 else None) for n in range(50)]
    accepted = await asyncio.gather(*accepting_all, drain(), drain())
    while (await story.take()).kind == "settled":
        pass
    rows = await story.actions()
    assert [row.ordinal for row in rows] == list(range(1, 51))
    assert {row.status for row in rows} == {"ok"}
    assert len(accepted) == 52
    last = rows[-1].action.updates["note"]
    assert await story.state() == {"note": last}
    row = await story.row()
    assert (row.session.version, row.session.taken, row.open_actions) == (50, 50, 0)
    assert Counter(await story.kinds()) == {"opened": 1, "action_accepted": 50, "action_settled": 50}


async def test_an_inbox_has_an_end(story: StageStory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many actions as may be open are; one more is refused and leaves nothing."""
    monkeypatch.setattr(accepting, "MAX_QUEUED", 2)
    await story.open()
    for _ in range(2):
        await story.accept(GREET)
    before = await story.rows()
    with pytest.raises(QueueFull):
        await story.accept(GREET, "k")
    assert await story.rows() == before


async def test_a_paused_session_keeps_its_actions(story: StageStory) -> None:
    """Each control changes the session once; what was accepted is taken when it is resumed."""
    await story.open()
    assert (await story.control("pause", control="p")).changed
    assert not (await story.control("pause", control="p")).changed
    assert (await story.accept(provide(note="x"))).wake
    assert (await story.take()).kind == "paused"
    assert (await story.row()).expires_at is None
    assert (await story.control("resume", control="r")).changed
    assert not (await story.control("pause", control="p")).changed, "it was applied before"
    assert (await story.take()).kind == "settled"
    assert (await story.row()).expires_at is not None
    assert await story.kinds() == ["opened", "paused", "action_accepted", "resumed", "action_settled"]


async def test_terminating_answers_all_that_is_open(story: StageStory) -> None:
    """The running task's action and those behind it are answered 404; what the task comes to afterwards counts for nothing."""
    await story.open()
    ordinal = await story.start(call("add", product="book"))
    begun = await story.begin(ordinal)
    await story.accept(GREET)
    ended = await story.control("terminate", control="t", reason="enough")
    assert ended.session is not None
    assert (ended.session.status, ended.session.taken, ended.changed) == ("terminated", 2, True)
    before = await story.rows()
    late = await story.settle(begun, 1, cart_items=["book"])
    assert (late.won, late.row is not None and late.row.reply is not None and late.row.reply.status) == (False, 404)
    assert (await story.begin(ordinal)).kind == "settled"
    assert (await story.take()).kind == "none"
    assert not (await story.control("resume")).changed
    assert await story.rows() == before
    row = await story.row()
    assert (row.ended_reason, row.open_actions, row.expires_at) == ("enough", 0, None)
    assert row.ended_at is not None
    assert await story.state() == {}
    assert (await story.kinds())[-3:] == ["terminated", "action_settled", "action_settled"]
    assert [action.reply.body for action in await story.actions() if action.reply] == [
        {"detail": "Session not found"}
    ] * 2


async def test_an_action_that_terminates_answers_those_behind_it(story: StageStory) -> None:
    """The one that ended it is answered as such, the others that there is no session any more."""
    await story.open()
    for action in (END, GREET, call("add")):
        await story.accept(action)
    taken = await story.take()
    assert (taken.kind, taken.status) == ("settled", "terminated")
    assert [row.reply.status for row in await story.actions() if row.reply] == [200, 404, 404]
    row = await story.row()
    assert (row.session.status, row.ended_reason, row.session.taken) == ("terminated", "done with it", 3)


async def test_a_session_expires_when_its_time_is_over_and_not_before(story: StageStory) -> None:
    """It reads as expired at once, is marked once, and takes nothing more; an open action keeps it."""
    await story.open()
    await story.let_pass(3599)
    assert (await story.row()).session.status is SessionStatus.OPEN
    assert story.key not in await mark_expired(story.database)
    await story.do(provide(note="x"))
    await story.let_pass(3599)
    await story.accept(provide(note="y"))
    await story.let_pass(3600)
    assert (await story.row()).session.status is SessionStatus.OPEN, "an action that came in time is still open"
    assert story.key not in await mark_expired(story.database)
    assert (await story.take()).status == "ok"
    await story.let_pass(3600)
    row = await story.row()
    assert (row.session.status, row.expires_at, row.ended_at) == ("expired", None, None)
    assert await refusal_of(story, GREET) is Reason.SESSION_NOT_FOUND
    assert (await story.take()).kind == "none"
    marked = await asyncio.gather(*(mark_expired(story.database, limit=1000) for _ in range(3)))
    assert [key for keys in marked for key in keys].count(story.key) == 1
    assert ((await story.row()).ended_at is not None, (await story.kinds())[-1]) == (True, "expired")


async def test_a_control_of_a_session_whose_time_is_over_finds_it_expired(story: StageStory) -> None:
    """Nobody saves it by a pause that comes too late; whoever notices first ends it. A paused one does not expire."""
    await story.open()
    await story.control("pause")
    await story.let_pass(7200)
    assert (await story.control("resume")).changed
    assert (await story.row()).session.status is SessionStatus.OPEN, "its time started anew"
    await story.let_pass(3600)
    late = await story.control("pause")
    assert (late.changed, late.news, late.session and late.session.status) == (False, True, "expired")
    assert (await story.kinds())[-1] == "expired"
    assert story.key not in await mark_expired(story.database)


async def test_a_refused_action_does_not_keep_a_session(story: StageStory) -> None:
    """The time of a session counts from its last action that was not refused."""
    await story.open()
    await story.let_pass(3000)
    await story.do(call("nothing"))
    await story.let_pass(600)
    assert (await story.row()).session.status is SessionStatus.EXPIRED


async def test_a_tenant_sees_nothing_of_another(story: StageStory) -> None:
    """Neither session nor action, by whatever id; and nothing is there for ids that cannot be."""
    await story.open()
    action = (await story.do(provide(note="x"))).id
    other = SessionKey("somebody-else", story.key.session)
    stranger = replace(story, key=other)
    assert await find_session(story.database, other) is None
    assert await find_action(story.database, other, action) is None
    assert await action_page(story.database, other, limit=10) == []
    assert await read_state(story.database, other) == {}
    assert await session_page(story.database, "somebody-else", limit=10) == []
    assert await refusal_of(stranger, GREET) is Reason.SESSION_NOT_FOUND
    assert (await stranger.take()).kind == "gone"
    assert (await stranger.control("terminate")).session is None
    assert not await delete_session(story.database, other)
    for session in ("", "x", "\0", "\ud800", story.key.session.upper(), f"{story.key.session}\0"):
        key = SessionKey(story.tenant, session)
        assert await find_session(story.database, key) is None
        assert await find_action(story.database, key, action) is None
        assert await refusal_of(replace(story, key=key), GREET) is Reason.SESSION_NOT_FOUND
    assert stage_key(story.tenant, f" {story.key.session.upper()}") == story.key
    assert stage_key(story.tenant, "x") is None


async def test_a_deleted_session_leaves_nothing(story: StageStory) -> None:
    """All rows go, those of another session stay; what still runs of it finds that it is gone."""
    await story.open()
    kept = (await story.rows(), story.key)
    await story.open()
    await story.do(provide(note="x"))
    ordinal = await story.start(call("refund", amount=1))
    begun = await story.begin(ordinal)
    assert await delete_session(story.database, story.key)
    assert not await delete_session(story.database, story.key)
    assert not any((await story.rows()).values())
    assert (await story.take()).kind == (await story.begin(ordinal)).kind == "gone"
    assert (await story.fail(begun)).session is None
    assert (await replace(story, key=kept[1]).rows()) == kept[0]


async def test_an_id_of_an_agents_session_is_not_taken(story: StageStory) -> None:
    """A stage session does not get into an agent's session, nor an agent's input into a stage session."""
    taken = new_id()
    async with story.database.driver() as connection:
        await connection.execute(
            "insert into perdure.session_heads (tenant_id, session_id, touched_at) values ($1, $2, now())",
            story.tenant, taken,
        )  # fmt: skip
    with pytest.raises(KeyConflict, match="is an agent's"):
        await story.open(id=taken)


async def test_secrets_do_not_get_into_the_rows(story: StageStory) -> None:
    """What this process knows is taken out of actions, reasons and of what an idempotency key is compared with never."""
    secret = f"sk-{uuid.uuid4().hex}"
    known_secrets.register("mail-key", secret)
    await story.open()
    first = await story.accept(provide(note=[secret]), "k")
    assert first.row.action.updates == {"note": ["[redacted:mail-key]"]}
    assert (await story.accept(provide(note=[secret]), "k")).repeated
    assert await refusal_of(story, provide(note="[redacted:mail-key]"), "k") is Reason.KEY_CONFLICT
    await story.accept(call(secret))
    await story.take()
    await story.take()
    await story.control("terminate", reason=f"because of {secret}")
    assert secret not in str(await story.rows())
    assert (await story.row()).ended_reason == "because of [redacted:mail-key]"
