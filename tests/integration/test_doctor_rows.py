"""`perdure doctor` on rows that somebody has damaged by hand: found by name, mended, well afterwards, and the session goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from sqlalchemy import text

from perdure.runtime.checks.check import Check, Scope
from perdure.runtime.checks.examination import NAMES, examine
from perdure.uap.ids import answer_id
from tests.integration.store_story import Story
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def examined(story: Story, *, repair: bool = False, only: Sequence[str] = NAMES) -> dict[str, Check]:
    """What the doctor says of a story's tenant, without Temporal."""
    scope = Scope(story.database, story.key.tenant)
    return {check.name: check async for check in examine(scope, only=only, repair=repair)}


def wrong(checks: dict[str, Check]) -> dict[str, list[str]]:
    """What is wrong, by check, a phrase each."""
    return {name: [one.what for one in check.findings] for name, check in checks.items() if not check.ok}


async def damage(story: Story, *statements: str, **values: object) -> None:
    """Do as somebody would do by hand."""
    async with story.database.transaction() as connection:
        for statement in statements:
            await connection.execute(text(statement), {**story.key._asdict(), **values})


async def told(story: Story) -> str:
    """A session with a run of two calls, which has completed; the run's id."""
    run = await story.run()
    await story.save(run, calls=2)
    await story.result(run, 0)
    await story.result(run, 1, value="good")
    await story.save(run, step=2)
    await story.end(run, step=2)
    return run


async def goes_on(story: Story) -> None:
    """One more run of the session comes to its end, and the session is what any session must be."""
    run = await story.run("and now")
    await story.save(run)
    assert (await story.end(run))["kind"] == "won"
    assert wrong(await examined(story)) == {}


@dataclass(frozen=True)
class Damage:
    """Damage, and what the doctor is to say of it. `run` and `answer` may stand in what it says."""

    check: str
    what: str
    sql: tuple[str, ...]


OWN = "tenant_id = :tenant and session_id = :session"
DAMAGES = {
    "an ended run is active": Damage(
        "heads", "run {run}, which is completed, still counts as active, so the session takes no input",
        (f"update perdure.session_heads set active_run = :run where {OWN}",
         "update perdure.sessions set status = 'running' where tenant_id = :tenant and id = :session"),
    ),
    "no head": Damage(
        "heads", "it has no head row, so nothing can be written to it",
        (f"delete from perdure.session_heads where {OWN}",),
    ),
    "an old ordinal": Damage(
        "heads", "its next input would get a number that input 1 has, so every submit fails",
        (f"update perdure.session_heads set next_ordinal = 1 where {OWN}",),
    ),
    "an old number": Damage(
        "heads", "its next event would get a number that event 7 has, so every write fails",
        (f"update perdure.session_heads set last_seq = 5 where {OWN}",),
    ),
    "a wrong status": Damage(
        "heads", "it is shown as running, and it is idle",
        ("update perdure.sessions set status = 'running' where tenant_id = :tenant and id = :session",),
    ),
    "no terminal event": Damage(
        "runs", "run {run} is completed, and its event log does not say so, so whoever follows it waits for ever",
        (f"update perdure.events set type = 'run.was' where {OWN} and type = 'run.completed'",),
    ),
    "an open call": Damage(
        "runs", "call {answer}/1 is pending, and its run has ended",
        (f"update perdure.tool_calls set state = 'pending' where {OWN} and index = 1",),
    ),
    "an open wait": Damage(
        "runs", "wait w asks for an answer, and its run is completed",
        (("insert into perdure.waits (tenant_id, id, session_id, run_id, kind, message_id, index, asked, asked_at) "
         "values (:tenant, 'w', :session, :run, 'approval', :answer, 0, '{{}}', now())"),),
    ),
    "a checkpoint past the end": Damage(
        "checkpoints", "checkpoint c stands after 9 of its thread, which has fewer",
        (("insert into perdure.checkpoints (tenant_id, session_id, id, run_id, node_id, step, position, at, record, "
         "temporal_run_id) select tenant_id, session_id, 'c', :run, id, 1, 9, '2030', "
         "'{{\"id\": \"c\", \"position\": 9, \"x\": \"\"}}', 'e' "
         f"from perdure.thread_nodes where {OWN}"),),
    ),
    "a gap in the log": Damage(
        "events", "its event log lacks 3, 5 to 6", (f"delete from perdure.events where {OWN} and seq in (3, 5, 6)",),
    ),
    "a log without its end": Damage(
        "events", "its event log lacks 8 to 12", (f"update perdure.session_heads set last_seq = 12 where {OWN}",),
    ),
    "the arguments of a call": Damage(
        "runs", "what call {answer}/0 was run with is lost: there is no body nothing",
        (f"update perdure.tool_calls set used_sha256 = 'nothing' where {OWN} and index = 0",),
    ),
    "a turn": Damage(
        "runs", "the turn that middleware gave run {run} is lost: there is no body nothing",
        (f"update perdure.runs set turn_sha = 'nothing' where {OWN}",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_found_and_mended(story: Story, name: str) -> None:
    """A look says what is wrong and changes nothing; a repair mends it; a second look finds nothing; the session goes on."""
    run, harm = await told(story), DAMAGES[name]
    assert wrong(await examined(story)) == {}
    values = {"run": run, "answer": answer_id(run, 1)}
    for statement in harm.sql:
        used = {key: value for key, value in values.items() if f":{key}" in statement}
        await damage(story, statement.replace("{{", "{").replace("}}", "}"), **used)
    rows = await story.rows() if name != "no head" else None
    assert wrong(await examined(story)) == {harm.check: [harm.what.format(**values)]}
    assert rows is None or await story.rows() == rows
    mended = await examined(story, repair=True)
    assert [check.name for check in mended.values() if check.mended] == [harm.check]
    assert mended[harm.check].count == mended[harm.check].mended == 1
    assert wrong(await examined(story)) == {}
    await goes_on(story)


LEFT = """
insert into perdure.runs (tenant_id, session_id, id, ordinal, status, spec, node_id, start_position, temporal_run_id,
                          first_seq, started_at)
select tenant_id, session_id, 'left', :ordinal, 'running', spec, node_id, start_position, 'e', first_seq, started_at
  from perdure.runs where tenant_id = :tenant and session_id = :session
"""


async def test_a_run_that_nobody_goes_on_with_is_made_active(story: Story) -> None:
    """The newest run is open, and the head does not say so: a repair makes it active, and it comes to its end."""
    run = await story.run()
    await story.set_head(active_run=None)
    await damage(story, "update perdure.sessions set status = 'idle' where tenant_id = :tenant and id = :session")
    what = f"run {run} is running and does not count as active, so nobody goes on with it"
    assert wrong(await examined(story)) == {"runs": [what]}
    assert (await examined(story, repair=True))["runs"].mended == 1
    assert (await story.head())["active_run"] == run
    assert wrong(await examined(story)) == {}
    await story.save(run)
    await story.end(run)
    await goes_on(story)


async def test_a_run_that_was_left_behind_is_ended(story: Story) -> None:
    """A run is open, and a later one has run since: a repair ends it as failed, once, with a terminal event."""
    await told(story)
    await damage(story, LEFT, ordinal=0)
    assert wrong(await examined(story)) == {"runs": ["run left is running, and another one has begun since"]}
    assert (await examined(story, repair=True))["runs"].mended == 1
    assert wrong(await examined(story, repair=True)) == {}
    ended = [event for event in await story.events() if event.run == "left"]
    assert [event.type for event in ended] == ["run.failed"]
    (row,) = [row for row in (await story.rows())["runs"] if row["id"] == "left"]
    assert (row["status"], row["error"]["type"]) == ("failed", "RunLost")


UNMENDED = {
    "no current node": (
        "heads",
        "update perdure.sessions set current_node = 'x' where tenant_id = :tenant and id = :session",
    ),
    "no row of the active run": (
        "heads",
        (
            f"with h as (update perdure.session_heads set active_run = 'x' where {OWN}) "
            "update perdure.sessions set status = 'running' where tenant_id = :tenant and id = :session"
        ),
    ),
    "no row of a run": ("runs", f"delete from perdure.runs where {OWN}"),
    "another end": ("runs", f"update perdure.events set type = 'run.failed' where {OWN} and type = 'run.completed'"),
    "two ends": (
        "runs",
        f"update perdure.events set type = 'run.failed', run_id = :run where {OWN} and type = 'action'",
    ),
    "no parent": ("tree", f"update perdure.thread_nodes set parent_id = 'x' where {OWN}"),
    "no node": ("tree", f"delete from perdure.thread_nodes where {OWN}"),
}


@pytest.mark.parametrize("name", UNMENDED)
async def test_what_rows_cannot_mend_is_named_and_left(story: Story, name: str) -> None:
    """What only the session's history can make again is said so, and a repair leaves every row as it is."""
    run = await told(story)
    check, statement = UNMENDED[name]
    await damage(story, statement, **({"run": run} if ":run" in statement else {}))
    assert check in wrong(await examined(story, only=[check]))
    rows = await story.rows()
    made = (await examined(story, repair=True, only=[check]))[check]
    assert (made.ok, made.mended) == (False, 0)
    assert await story.rows() == rows


@pytest.mark.parametrize("table", ["messages", "events", "payloads", "session_heads", "limit_leases"])
async def test_rows_without_their_session_are_found_and_deleted(story: Story, table: str) -> None:
    """Rows of a session that is gone, whatever their table, are counted and deleted; another session's stay."""
    other = Story(story.database, story.key._replace(session=f"{story.key.session}-other"))
    await told(other)
    await told(story)
    rows = await other.rows()
    await damage(story, "delete from perdure.sessions where tenant_id = :tenant and id = :session")
    for name in [name for name in await story.rows() if name not in ("sessions", table)]:
        await damage(story, f"delete from perdure.{name} where {OWN}")
    if table == "limit_leases":
        await damage(story, LEASE)
    count = len((await story.rows())[table])
    assert count
    found = wrong(await examined(story))
    assert found == {"orphans": [f"it is gone, and {table} has {count} row{'s' if count > 1 else ''} of it"]}
    assert (await examined(story, repair=True))["orphans"].mended == 1
    assert wrong(await examined(story)) == {}
    assert not any((await story.rows()).values())
    assert await other.rows() == rows


LEASE = """
insert into perdure.limit_leases (tenant_id, name, permit, asker, session_id, run_id, holder, state, turn, asked_at, expires_at)
values (:tenant, 'n', 'p', 'a', :session, 'r', 'h', 'held', 1, now(), now())
"""


async def test_another_tenants_rows_are_not_looked_at(story: Story) -> None:
    """A tenant's doctor sees and mends that tenant's rows only."""
    other = Story(story.database, story.key._replace(tenant=f"{story.key.tenant}-other"))
    await told(story)
    await told(other)
    await damage(other, f"update perdure.session_heads set next_ordinal = 1 where {OWN}")
    rows = await other.rows()
    assert wrong(await examined(story, repair=True)) == {}
    assert await other.rows() == rows
    assert list(wrong(await examined(other))) == ["heads"]


async def test_two_doctors_mend_a_thing_once(story: Story) -> None:
    """Repairs of two operators at once write one terminal event."""
    run = await told(story)
    await damage(story, f"update perdure.events set type = 'run.was' where {OWN} and type = 'run.completed'")
    await asyncio.gather(*(examined(story, repair=True) for _ in range(3)))
    assert [event.type for event in await story.events() if event.run == run].count("run.completed") == 1
    assert wrong(await examined(story)) == {}


MANY = """
with made as (select :tenant as tenant, cast(gen_random_uuid() as text) as id from generate_series(1, :count)),
     s as (insert into perdure.sessions (tenant_id, id, agent, agent_id, status, metadata, current_node, usage, created_at,
                                         updated_at)
           select tenant, id, 'a', 'a', 'idle', '{}', id, '{}', now(), now() from made returning id),
     n as (insert into perdure.thread_nodes (tenant_id, session_id, id, thread_id, metadata, created_at)
           select tenant, id, id, id, '{}', now() from made)
insert into perdure.session_heads (tenant_id, session_id, touched_at) select tenant, id, now() from made
"""


async def test_every_session_of_many_pages_is_looked_at(story: Story) -> None:
    """Sessions are read in pages; however many are damaged, all are counted and mended, and only some are shown."""
    count = scaled(5_000)
    await damage(story, MANY, count=count)
    await damage(story, "update perdure.sessions set status = 'running' where tenant_id = :tenant")
    found = await examined(story, only=["events", "orphans", "heads"])
    assert (found["heads"].count, len(found["heads"].found), found["events"].ok) == (count, 100, True)
    mended = await examined(story, only=["heads"], repair=True)
    assert (mended["heads"].mended, mended["heads"].ok) == (count, True)
    assert wrong(await examined(story, only=["heads"])) == {}
