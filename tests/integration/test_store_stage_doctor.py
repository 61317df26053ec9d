"""`perdure doctor` on stage sessions: rows that somebody damaged, rows whose session is gone, and none of what is well."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest
from sqlalchemy import text

from perdure.errors import InvalidInput, UnknownSession
from perdure.runtime.checks.check import Check, Scope
from perdure.runtime.checks.examination import examine
from perdure.store.database import Database
from perdure.store.deleting import mark_deleting
from perdure.store.stages.running import ask_wait
from perdure.store.tables import metadata
from perdure.uap.session_key import SessionKey
from tests.integration.stage_story import StageStory, call, provide
from tests.integration.store_story import Story

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = "tenant_id = :tenant and session_id = :session"
ITSELF = "tenant_id = :tenant and id = :session"
ROWS = ("orphans", "stage_rows", "heads", "runs", "tree", "checkpoints", "events", "deletions")


@pytest.fixture
def story(database: Database) -> StageStory:
    """A tenant without anything."""
    return StageStory(database, f"tenant-{uuid.uuid4().hex}")


async def lived(story: StageStory) -> None:
    """A session that has a row in every table that stage sessions have."""
    await story.open(values={"cart.items": ["book"]})
    await story.do(provide(note="x"))
    await story.begin(await story.start(call("order")))
    await ask_wait(story.database, story.key, 2, "outcome")


async def wrong(story: StageStory, *, repair: bool = False) -> dict[str, Check]:
    scope = Scope(story.database, story.tenant)
    checks = {check.name: check async for check in examine(scope, only=ROWS, repair=repair)}
    assert set(checks) == set(ROWS)
    return checks if repair else {name: check for name, check in checks.items() if not check.ok}


async def damage(story: StageStory, *statements: str) -> None:
    async with story.database.transaction() as connection:
        for statement in statements:
            await connection.execute(text(statement), story.key._asdict())


@dataclass(frozen=True)
class Damage:
    """Damage, what is said of it, and whether it can be mended."""

    what: str
    sql: str
    mends: bool = True


DAMAGES = {
    "no head": Damage(
        "it has no head row, so nothing can be written to it", f"delete from perdure.session_heads where {OWN}"
    ),
    "an old ordinal": Damage(
        "its next action would get a number that action 2 has, so every action fails",
        f"update perdure.session_heads set next_ordinal = 2 where {OWN}",
    ),
    "an old number of events": Damage(
        "its next event would get a number that event 6 has, so every write fails",
        f"update perdure.session_heads set last_seq = 5 where {OWN}",
    ),
    "a wrong count": Damage(
        "it counts 0 actions as open, and 1 are, so it expires too early or never",
        f"update perdure.stage_sessions set open_actions = 0 where {ITSELF}",
    ),
    "no definition": Damage(
        "the definition {definition} that it is pinned to has no row",
        "delete from perdure.stage_definitions where tenant_id = :tenant and :session <> ''",
        mends=False,
    ),
    "a lost value": Damage(
        "its state lacks a value of note", f"delete from perdure.stage_values where {OWN} and key = 'note'", mends=False
    ),
    "a value too many": Damage(
        "its state knows nothing of a value of other",
        "insert into perdure.stage_values values (:tenant, :session, 'other', '1')",
        mends=False,
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_found_and_mended(story: StageStory, name: str) -> None:
    """It is named, nothing else is; once it is mended the session is what it was, and goes on."""
    done = DAMAGES[name]
    await lived(story)
    assert await wrong(story) == {}
    before = await story.rows()
    await damage(story, done.sql)
    found = await wrong(story)
    what = done.what.replace("{definition}", (story.served[0].sha256))
    assert {check: [one.what for one in made.findings] for check, made in found.items()} == {"stage_rows": [what]}
    assert (await wrong(story, repair=True))["stage_rows"].mended == int(done.mends)
    if done.mends:
        assert await wrong(story) == {}
        assert await story.rows() == before
        assert (await story.accept(call("add", product="pen"))).row.ordinal == 3


async def test_what_a_gone_session_left_is_deleted(story: StageStory) -> None:
    """In every table that has rows of it; sessions that are there, of stages or of agents, keep theirs."""
    await lived(story)
    kept = (story.key, await story.rows())
    agents = Story(story.database, story.key._replace(session=str(uuid.uuid4())))
    await agents.run()
    rows = await agents.rows()
    await lived(story)
    await damage(story, f"delete from perdure.stage_sessions where {ITSELF}")
    found = [one.what for one in (await wrong(story))["orphans"].findings]
    tables = [
        table.name for table in metadata.sorted_tables if table.name.startswith("stage_") and "session_id" in table.c
    ]
    assert len(tables) == 3
    for table in (*tables, "events", "session_heads"):
        assert [what for what in found if what.startswith(f"it is gone, and {table} has ")], table
    assert len(found) == 5
    assert (await wrong(story, repair=True))["orphans"].mended == 5
    assert await wrong(story) == {}
    assert not any((await story.rows()).values())
    story.key = kept[0]
    assert (await story.rows(), await agents.rows()) == (kept[1], rows)


async def test_agents_have_no_business_in_a_stage_session(story: StageStory) -> None:
    """An agent's input, a deletion or an opening under its id finds no session, and changes nothing."""
    await lived(story)
    before = await story.rows()
    agents = Story(story.database, SessionKey(*story.key))
    with pytest.raises(InvalidInput, match="is a stage session"):
        await agents.submit("hello")
    with pytest.raises(UnknownSession):
        await agents.submit("hello", create=False)
    assert await mark_deleting(story.database, story.key, force=True) == []
    assert await story.rows() == before
