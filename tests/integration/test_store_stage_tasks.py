"""Tasks of stage sessions on a real PostgreSQL: how often a try may begin, what came of it, and what a person says of it."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta

import pytest

from perdure.errors import InvalidInput, UnknownWait, WaitAnswered, WaitStale
from perdure.store.database import Database
from perdure.store.events import read_events
from perdure.store.stages.actions import find_action
from perdure.store.stages.neglected import NeglectedStage, find_neglected, find_silent
from perdure.store.stages.running import ask_wait, settle_task
from perdure.store.stages.waits import answer_wait, open_stage_waits
from perdure.uaip.arguments import misfit
from perdure.uaip.state import StateDiff
from perdure.uaip.task_outcome import TaskRun
from perdure.uap.ids import new_id
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets
from tests.integration.stage_story import StageStory, call, move, provide

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def story(database: Database) -> StageStory:
    """A tenant without anything."""
    return StageStory(database, f"tenant-{uuid.uuid4().hex}")


async def id_of(story: StageStory, ordinal: int) -> str:
    return (await story.actions())[ordinal - 1].id


async def test_a_task_is_taken_begun_and_settled(story: StageStory) -> None:
    """Its row says how far it is; values, reply and events come with the settling, and nothing before."""
    await story.open(values={"note": "x", "cart.items": ["pen"]})
    accepted = await story.accept(call("add", product="book"))
    before, taken = accepted.row, await story.take()
    assert (taken.kind, taken.from_stage, taken.state, taken.task and taken.task.effect) == (
        "task", "cart", "running", "idempotent",
    )  # fmt: skip
    assert await story.take() == taken, "until it is settled it is given out again"
    begun = await story.begin(taken.ordinal)
    assert (begun.kind, begun.attempt, begun.arguments) == ("begun", 1, {"product": "book"})
    assert begun.values == {"note": "x", "cart.items": ["pen"]}
    assert (before.state, begun.row and begun.row.state) == ("queued", "running")
    settled = await story.settle(begun, 2, cart_items=["pen", "book"])
    assert (settled.won, settled.news) == (True, True)
    row = (await story.actions())[0]
    assert settled.row == row
    assert (row.state, row.status, row.attempt, row.stage) == ("settled", "ok", 1, "cart")
    assert row.reply is not None
    assert row.reply.body["result"] == 2
    assert row == await find_action(story.database, story.key, row.id)
    assert await story.state() == {"note": "x", "cart.items": ["pen", "book"]}
    assert (await story.row()).session.version == 2
    assert await story.kinds() == ["opened", "action_accepted", "task_started", "action_settled"]


async def test_only_what_changed_is_written(story: StageStory) -> None:
    """A value that a task did not change keeps its row as it is."""
    await story.open(values={"note": "x" * 900_000, "cart.items": []})

    async def written() -> dict[str, str]:
        query = "select key, xmin::text from perdure.stage_values where tenant_id = $1 and session_id = $2"
        async with story.database.driver() as connection:
            return {row["key"]: row["xmin"] for row in await connection.fetch(query, *story.key)}

    before = await written()
    begun = await story.begin(await story.start(call("add", product="book")))
    await story.settle(begun, 1, cart_items=["book"])
    assert {key for key, value in (await written()).items() if before[key] != value} == {"cart.items"}


async def test_a_second_settle_is_answered_with_the_first(story: StageStory) -> None:
    """Of many at once, of one try or of a zombie, one counts; the others are told what it came to, and write nothing."""
    await story.open()
    ordinal = await story.start(call("add", product="book"))
    first, second = await story.begin(ordinal), await story.begin(ordinal)
    assert (first.attempt, second.attempt) == (1, 2)
    settled = await asyncio.gather(*(story.settle(one, n, note=str(n)) for n, one in enumerate([first, second] * 4)))
    (won,) = [one for one in settled if one.won]
    before = await story.rows()
    assert {one.row == won.row for one in settled} == {True}
    assert not (await story.fail(first)).won
    assert await story.rows() == before
    assert won.row is not None
    assert won.row.reply is not None
    assert await story.state() == {"note": str(won.row.reply.body["result"])}
    assert (await story.begin(ordinal)).kind == "settled"


async def test_a_failure_keeps_the_state(story: StageStory) -> None:
    """A task that raised, or whose arguments did not fit, changes nothing but its own row; the next action is taken."""
    await story.open(values={"note": "x"})
    await story.fail(await story.begin(await story.start(call("add", product="book"))))
    begun = await story.begin(await story.start(call("add", product=7)))
    refused = TaskRun(refusal=misfit("add", ["$.product: 7 is no text"]))
    assert begun.row is not None
    await settle_task(story.database, story.key, begun.row.ordinal, refused)
    replies = [row.reply for row in await story.actions()]
    assert [(reply.status, reply.body["status"]) for reply in replies if reply] == [(200, "error"), (422, "error")]
    assert (await story.state(), (await story.row()).session.version) == ({"note": "x"}, 1)
    assert (await story.do(provide(note="y"))).status == "ok"


async def test_a_change_of_another_version_is_refused(story: StageStory) -> None:
    """What was not made on the state that there is, is not written over it."""
    await story.open(values={"note": "x"})
    ordinal = await story.start(call("add", product="book"))
    before = await story.rows()
    with pytest.raises(InvalidInput, match="does not fit version 1"):
        await settle_task(story.database, story.key, ordinal, TaskRun(1, StateDiff(0, {"note": "old"})))
    assert await story.rows() == before


async def test_a_repeated_begin_is_the_same_try(story: StageStory) -> None:
    """A call that is made again for the same try, as after a lost connection, counts no other try."""
    await story.open()
    ordinal = await story.start(call("order"))
    first = await story.begin(ordinal, "execution/1")
    before = await story.rows()
    again = await story.begin(ordinal, "execution/1")
    assert (again.kind, again.attempt, again.news, first.news) == ("begun", 1, False, True)
    assert await story.rows() == before


@pytest.mark.parametrize("name", ["notify", "order"])
async def test_a_try_of_which_nobody_knows_is_not_run_again(story: StageStory, name: str) -> None:
    """After a try that was marked another one finds the outcome unknown, whatever process asks."""
    await story.open()
    ordinal = await story.start(call(name))
    assert (await story.begin(ordinal)).kind == "begun"
    before = await story.rows()
    begun = await story.begin(ordinal)
    assert (begun.kind, begun.values, begun.news) == ("unknown", {}, False)
    assert await story.rows() == before


async def test_a_person_says_what_came_of_a_try(story: StageStory) -> None:
    """Not done: one more try may begin, of which nobody knows afterwards again. Done: it is settled with the result."""
    await story.open()
    ordinal = await story.start(call("order"))
    await story.begin(ordinal)
    action = await id_of(story, ordinal)
    for attempt in (1, 2):
        asked = await ask_wait(story.database, story.key, ordinal, "outcome")
        assert asked is not None
        assert await ask_wait(story.database, story.key, ordinal, "outcome") == asked
        assert ((await story.begin(ordinal)).kind, (await story.take()).state) == ("asked", "waiting")
        answer: JSONObject = {"outcome": "not_done"} if attempt == 1 else {"outcome": "done", "result": "order 7"}
        await answer_wait(story.database, story.key, action, answer, by="ann", reason="looked")
        begun = await story.begin(ordinal)
        assert (begun.kind, begun.attempt) == ([("begun", 2), ("done", 2)][attempt - 1])
    assert begun.row is not None
    assert begun.row.wait is not None
    assert begun.row.wait.answer == {"outcome": "done", "result": "order 7"}
    await story.settle(begun, "order 7", ordered=True)
    assert [row.status for row in await story.actions()] == ["ok"]
    assert (await story.kinds())[2:] == [
        "task_started", "waiting", "wait_answered", "task_started", "waiting", "wait_answered", "action_settled",
    ]  # fmt: skip


async def test_a_call_is_approved_once(story: StageStory) -> None:
    """Nothing is begun before; of many answers at once one counts; its arguments are those that the task gets."""
    await story.open()
    ordinal = await story.start(call("refund", amount=100))
    assert (await story.begin(ordinal)).kind == "unasked"
    with pytest.raises(UnknownWait):
        await answer_wait(story.database, story.key, await id_of(story, ordinal), {"approved": True}, by="ann")
    await ask_wait(story.database, story.key, ordinal, "approval", timeout_s=60)
    action = await id_of(story, ordinal)
    assert (await story.begin(ordinal)).kind == "asked"
    assert [row.id for row in await open_stage_waits(story.database, story.tenant, limit=10)] == [action]
    wrongs: list[JSONObject] = [{"approved": 1}, {"outcome": "done"}, {"approved": True, "arguments": [1]}]
    for wrong in wrongs:
        with pytest.raises(InvalidInput):
            await answer_wait(story.database, story.key, action, wrong, by="ann")
    answer: JSONObject = {"approved": True, "arguments": {"amount": 50}}
    tried = [answer_wait(story.database, story.key, action, answer, by=f"ann {n}") for n in range(5)]
    answered = await asyncio.gather(*tried, return_exceptions=True)
    assert [type(one) for one in answered].count(WaitAnswered) == 4
    assert await open_stage_waits(story.database, story.tenant, limit=10) == []
    begun = await story.begin(ordinal)
    assert (begun.kind, begun.arguments) == ("begun", {"amount": 50})
    assert (await story.begin(ordinal)).kind == "unknown", "approved or not, it is a `once` task"
    await story.settle(begun, 50)
    assert (await story.kinds()).count("wait_answered") == 1
    with pytest.raises(UnknownWait):
        await answer_wait(story.database, story.key, new_id(), answer, by="ann")


@pytest.mark.parametrize("answered", [True, False])
async def test_what_is_denied_is_not_begun(story: StageStory, *, answered: bool) -> None:
    """A no, and a time that is over, are final."""
    await story.open()
    ordinal = await story.start(call("refund", amount=100))
    await ask_wait(story.database, story.key, ordinal, "approval", timeout_s=60)
    action = await id_of(story, ordinal)
    if answered:
        await answer_wait(story.database, story.key, action, {"approved": False}, by="ann", reason="too much")
    await story.let_pass(59)
    assert (await story.begin(ordinal)).kind == ("denied" if answered else "asked")
    await story.let_pass(1)
    begun = await story.begin(ordinal)
    assert (begun.kind, begun.attempt) == ("denied", 0)
    with pytest.raises(WaitAnswered if answered else WaitStale):
        await answer_wait(story.database, story.key, action, {"approved": True}, by="bob")
    await story.fail(begun, "Denied")
    assert [row.wait and row.wait.reason for row in await story.actions()] == ["too much" if answered else ""]
    assert await open_stage_waits(story.database, story.tenant, limit=10) == []


async def test_a_wait_of_what_is_settled_is_stale(story: StageStory) -> None:
    """A try that comes back while somebody is asked about it wins; the question is withdrawn."""
    await story.open()
    ordinal = await story.start(call("order"))
    begun = await story.begin(ordinal)
    await ask_wait(story.database, story.key, ordinal, "outcome")
    assert (await story.settle(begun, "ordered")).won
    with pytest.raises(WaitStale):
        await answer_wait(story.database, story.key, await id_of(story, ordinal), {"outcome": "not_done"}, by="ann")
    assert await open_stage_waits(story.database, story.tenant, limit=10) == []
    assert await ask_wait(story.database, story.key, ordinal, "outcome") is None


async def test_a_running_task_is_finished_while_its_session_is_paused(story: StageStory) -> None:
    """What runs is given out and settled; what waits for a person, or in the queue, is left alone until it goes on."""
    await story.open()
    first = await story.start(call("add", product="book"))
    begun = await story.begin(first)
    await story.accept(call("refund", amount=1))
    await story.control("pause")
    assert (await story.take()).ordinal == first
    await story.settle(begun, 1, cart_items=["book"])
    assert ((await story.take()).kind, await story.state()) == ("paused", {"cart.items": ["book"]})
    await story.control("resume")
    second = (await story.take()).ordinal
    await ask_wait(story.database, story.key, second, "approval")
    await story.control("pause")
    assert (await story.take()).kind == "paused"


async def test_what_was_not_taken_is_not_begun(story: StageStory) -> None:
    """Only take_action gives an action out: a try of one in the queue is a mistake, and of one that is not there gone."""
    await story.open()
    await story.accept(call("add", product="book"))
    with pytest.raises(InvalidInput, match="was not taken"):
        await story.begin(1)
    assert (await story.begin(2)).kind == "gone"


async def test_who_neglects_a_session_is_found_out(story: StageStory) -> None:
    """A queued action, an answered wait and a silent task, each once, after its time; none of a paused session."""

    async def neglected() -> list[NeglectedStage]:
        return [one for one in await find_neglected(story.database) if one.key == story.key]

    async def silent() -> list[NeglectedStage]:
        return [one for one in await find_silent(story.database, seconds=15) if one.key == story.key]

    await story.open()
    await story.accept(call("refund", amount=1))
    await story.accept(call("add", product="book"))
    assert await neglected() == []
    await story.let_pass(2)
    assert [(one.ordinal, one.task_queue, one.workflow) for one in await neglected()] == [(1, "stage-story", "shop")]
    await story.control("pause")
    await story.let_pass(2)
    assert await neglected() == []
    await story.control("resume")
    await story.take()
    await ask_wait(story.database, story.key, 1, "approval")
    await story.let_pass(14)
    assert (await neglected(), await silent()) == ([], []), "the second is behind the first"
    await story.let_pass(2)
    assert [one.ordinal for one in await silent()] == [1]
    await answer_wait(story.database, story.key, await id_of(story, 1), {"approved": True}, by="ann")
    await story.let_pass(2)
    assert ([one.ordinal for one in await neglected()], await silent()) == ([1], [])
    begun = await story.begin(1)
    assert (begun.kind, await neglected()) == ("begun", [])


async def test_secrets_of_a_task_do_not_get_into_the_rows(story: StageStory) -> None:
    """Result, values, error and what a person answers are without what this process knows; sizes fit what is kept."""
    secret = f"sk-{uuid.uuid4().hex}"
    known_secrets.register("bank-key", secret)
    await story.open()
    begun = await story.begin(await story.start(call("add", product="book")))
    await story.settle(begun, len(secret), note=[secret])
    begun = await story.begin(await story.start(call("order")))
    await ask_wait(story.database, story.key, 2, "outcome")
    said: JSONObject = {"outcome": "done", "result": secret}
    await answer_wait(story.database, story.key, await id_of(story, 2), said, by="ann", reason=secret)
    await story.fail(begun, secret)
    shown = str([event.data for event in await read_events(story.database, story.key, after=0)])
    assert secret not in str(await story.rows()) + shown
    assert await story.state() == {"note": ["[redacted:bank-key]"]}
    assert (await story.row()).session.sizes == {"note": len('"note":["[redacted:bank-key]"],')}


async def test_a_move_drops_what_its_way_does_not_keep(story: StageStory) -> None:
    """Values that a transition drops are rows no more, and a task that follows does not see them."""
    await story.open(values={"cart.items": ["book"], "user.email": "a@b.c"})
    await story.do(move("checkout"))
    await story.do(move("cart"))
    begun = await story.begin(await story.start(call("add", product="pen")))
    assert begun.values == {"user.email": "a@b.c"}


async def test_waits_come_in_pages(story: StageStory) -> None:
    """Oldest first, each once, those of other tenants never; an expired one is none."""
    keys: list[str] = []
    for count in range(5):
        await story.open()
        ordinal = await story.start(call("refund", amount=count))
        await ask_wait(story.database, story.key, ordinal, "approval", timeout_s=60 if count == 4 else None)
        keys.append(story.key.session)
    await story.let_pass(timedelta(minutes=1).total_seconds())
    seen: list[str] = []
    after = None
    while page := await open_stage_waits(story.database, story.tenant, after=after, limit=3):
        seen += [row.key.session for row in page]
        last = page[-1]
        assert last.wait is not None
        after = (last.wait.asked_at, last.key.session, last.ordinal)
    assert seen == keys[:4]
    with pytest.raises(InvalidInput):
        await open_stage_waits(story.database, story.tenant, limit=0)
