"""Labels of sessions: whoever writes metadata, sealed or clear, has them be what it says; and what is there is gone through."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text

from perdure.errors import DamagedSession, FilterIncomplete, InvalidInput
from perdure.store.database import Database
from perdure.store.deleting import delete_content, forget, mark_deleting
from perdure.store.filterable_keys import ADDED, COMPLETE, FILLING, list_filterable, set_filterable
from perdure.store.importing import ImportedNode, ImportedSession, store_session
from perdure.store.inputs import submit
from perdure.store.json_text import escaped_json
from perdure.store.keyring import new_key, parse_keys
from perdure.store.label_filling import keep_labels
from perdure.store.rotating import reseal
from perdure.store.session_metadata import write_metadata
from perdure.store.session_patch import Patch, patch_session
from perdure.store.sessions import list_sessions
from perdure.store.submission import Submission
from perdure.uap.ids import new_id, root_node_id
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import UserMessage
from tests.integration.labelled import LONG_AGO, TENANT, allow, filled, found, labelled, labels, opened, unlabelled
from tests.integration.rebuilt_sessions import Snapshot, rebuild
from tests.integration.stack import ROOT, Stack, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEB = ("team", '"web"')
FILLER = """
import asyncio, sys
from perdure.store.database import Database
from perdure.store.keyring import parse_keys
from perdure.store.label_filling import keep_labels
async def main():
    database = Database(sys.argv[1], keyring=parse_keys(sys.argv[2]))
    while await keep_labels(database, batch=1):
        pass
asyncio.run(main())
"""


@pytest.fixture(scope="module", params=["clear", "sealed"])
def keys(request: pytest.FixtureRequest) -> str:
    """The keys under which all is sealed, or none."""
    return new_key("one") if request.param == "sealed" else ""


@pytest_asyncio.fixture(loop_scope="module")
async def database(stack: Stack, keys: str) -> AsyncGenerator[Database]:
    async with labelled(stack, "team", "priority", "live", keyring=parse_keys(keys)) as made:
        yield made


async def test_labels_come_with_a_session_and_go_with_it(database: Database) -> None:
    """Those keys alone that lists are filtered by; deleted is deleted."""
    session = await opened(database, {"team": "web", "secret": "x", "live": True, "priority": {"no": 1}})
    assert await labels(database, session) == {WEB, ("live", "true")}
    assert await found(database, {"team": "web"}) == [session]
    deleted = await mark_deleting(database, SessionKey(TENANT, session), force=True)
    await delete_content(database, deleted)
    await forget(database, deleted)
    assert await found(database, {"team": "web"}) == []
    assert await labels(database) == set()
    assert await unlabelled(database) == []


async def test_an_input_that_opens_a_session_labels_it(database: Database) -> None:
    """By the inbox, as most sessions are opened."""
    accepted = await submit(
        database,
        Submission(
            tenant=TENANT, agent="talker", agent_id="a", message=UserMessage("hello"), key=new_id(), session=new_id(),
            create=True, metadata={"team": "web"},
        ),
    )  # fmt: skip
    assert await found(database, {"team": "web"}) == [accepted.key.session]


async def test_an_imported_session_has_its_place(database: Database) -> None:
    """By the time of its creation, which is what its document says."""
    young, key = await opened(database, {"team": "web"}), SessionKey(TENANT, new_id())
    root = root_node_id(key.session)
    values: dict[str, Any] = {"id": root, "thread_id": root, "metadata": {}, "created_at": LONG_AGO}
    await store_session(
        database, key,
        ImportedSession(
            agent="talker", agent_id="a", metadata={"team": "web"}, current=root, created_at=LONG_AGO, updated_at=LONG_AGO,
            imported={}, nodes=[ImportedNode(values, [])], checkpoints=[],
        ),
    )  # fmt: skip
    assert await found(database, {"team": "web"}) == [young, key.session]


async def test_changed_metadata_changes_labels(database: Database) -> None:
    """By a patch, and as a program's session writes its metadata; a title alone changes none."""
    session = await opened(database, {"team": "web", "priority": 1})
    key = SessionKey(TENANT, session)
    await patch_session(database, key, Patch(metadata={"team": "ops"}, removed=["priority"]))
    assert await labels(database, session) == {("team", '"ops"')}
    await patch_session(database, key, Patch(retitled=True, title="other"))
    assert await labels(database, session) == {("team", '"ops"')}
    await write_metadata(database, key, {"team": "web", "live": False})
    assert await labels(database, session) == {WEB, ("live", "false")}
    await write_metadata(database, key, {"team": None}, ["live"])
    assert await labels(database, session) == set()
    assert await unlabelled(database) == []


async def test_values_are_equal_as_json(database: Database) -> None:
    """One, a text of one, and true are three values; 1.0 is 1, and a long text is told from its neighbour."""
    values: list[Any] = [
        1,
        "1",
        True,
        "true",
        1.5,
        10**30,
        "x" * 5000,
        "x" * 5001,
        "é\x00\ud83c\ufdd0",
        "",
        False,
        -0.25,
    ]
    known = {await opened(database, {"priority": value}): value for value in values}
    for session, value in known.items():
        assert await found(database, {"priority": value}) == [session], value
    (one,) = await found(database, {"priority": 1.0})
    assert known[one] is values[0]
    assert await found(database, {"priority": 1e30}) == await found(database, {"priority": 10**30})
    assert await found(database, {"priority": "x"}) == []


async def test_what_no_list_is_filtered_by_is_refused(database: Database) -> None:
    """A key that is not allowed, with the remedy; a value that is none."""
    with pytest.raises(
        InvalidInput, match=r"'secret'.*but by live, priority, team; .*PERDURE_FILTERABLE_METADATA.*migrate"
    ):
        await list_sessions(database, TENANT, metadata={"team": "web", "secret": "x"})
    values: list[Any] = [None, [], {}, float("nan")]
    for value in values:
        with pytest.raises(InvalidInput, match="filtered by"):
            await list_sessions(database, TENANT, metadata={"team": value})


async def test_sessions_that_are_there_are_gone_through(stack: Stack, keys: str) -> None:
    """A filler that is killed in the middle is gone on after; until all are through the list says so, and then has all."""
    keyring = parse_keys(keys)
    async with labelled(stack, keyring=keyring) as database:
        known = sorted([await opened(database, {"team": "web"}) for _ in range(9)])
        assert await labels(database) == set()
        await set_filterable(database, ["team"])
        async with database.transaction() as connection:  # what is held below would have the filler wait to begin
            await connection.execute(text("update perdure.filterable_keys set state = 'filling', horizon = 0"))
        hold = text("select 1 from perdure.sessions where id = :session for update")
        async with database.transaction() as holding:
            await holding.execute(hold, {"session": known[5]})
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", FILLER, database.dsn(), keys, cwd=ROOT, start_new_session=True
            )
            place = text("select after_session from perdure.filterable_keys")

            async def at_the_sixth() -> bool:
                async with database.transaction() as connection:
                    return await connection.scalar(place) == known[4]

            await eventually(at_the_sixth, what="five sessions gone through")
            process.kill()
            await process.wait()
        assert (await list_filterable(database))["team"] == FILLING
        with pytest.raises(FilterIncomplete, match=r"'team'.*try again"):
            await list_sessions(database, TENANT, metadata={"team": "web"})
        await filled(database)
        assert sorted(await found(database, {"team": "web"})) == known


async def test_a_writer_that_knows_no_key_yet_is_waited_for(stack: Stack, keys: str) -> None:
    """A session that was begun before a key was allowed, and is stored after it, is not left out."""
    async with labelled(stack, keyring=parse_keys(keys)) as database:
        session = await opened(database, {"team": "web"})
        copied = text(
            "insert into perdure.sessions (tenant_id, id, agent, agent_id, status, metadata, usage, created_at, updated_at) "
            "select tenant_id, cast(:id as text), agent, agent_id, status, metadata, usage, created_at, updated_at "
            "from perdure.sessions"
        )
        async with database.transaction() as writing:
            await writing.execute(copied, {"id": new_id()})
            await set_filterable(database, ["team"])
            for _ in range(3):
                await keep_labels(database)
            assert await list_filterable(database) == {"team": ADDED}
        await filled(database)
        async with database.transaction() as connection:
            assert await connection.scalar(text("select count(*) from perdure.session_labels")) == 2
        assert session in await found(database, {"team": "web"})


async def test_a_removed_key_keeps_no_row_and_may_come_back(database: Database) -> None:
    """Of every tenant; what is written meanwhile has none of it, and back again all are found."""
    sessions = [await opened(database, {"team": "web", "priority": n}) for n in range(3)]
    other = await opened(database, {"team": "web"}, tenant="other")
    await set_filterable(database, ["priority"])
    sessions.append(await opened(database, {"team": "web"}))

    async def gone() -> bool:
        await keep_labels(database)
        return {key for key, _ in await labels(database)} == {"priority"}

    await eventually(gone, what="no row of the key")
    with pytest.raises(InvalidInput, match="'team'"):
        await list_sessions(database, TENANT, metadata={"team": "web"})
    await allow(database, "priority", "team")
    assert await found(database, {"team": "web"}) == sessions[::-1]
    assert await found(database, {"team": "web"}, tenant="other") == [other]
    assert await list_filterable(database) == {"priority": COMPLETE, "team": COMPLETE}


async def test_a_damaged_session_holds_up_no_other(stack: Stack) -> None:
    """Its metadata opens for nobody; the others are found, and the key is complete."""
    async with labelled(stack, keyring=parse_keys(new_key("one"))) as database:
        known = sorted([await opened(database, {"team": "web"}) for _ in range(5)])
        damage = text("update perdure.sessions set metadata = cast(:sealed as json) where id = :session")
        sealed = '{"\\ufdd0sealed":"one:AAAA"}'
        async with database.transaction() as connection:
            await connection.execute(damage, {"session": known[2], "sealed": sealed})
        await allow(database, "team")
        assert sorted(await found(database, {"team": "web"})) == [*known[:2], *known[3:]]
        with pytest.raises(DamagedSession):
            await list_sessions(database, TENANT)


async def test_labels_that_a_writer_left_out_are_made_good(stack: Stack) -> None:
    """A process of the version before seals metadata and knows no labels; nothing stays left out, nor of what is clear."""
    keyring = parse_keys(new_key("one"))
    async with labelled(stack, "team", keyring=keyring) as database:
        session = await opened(database, {"team": "web"})
        key = SessionKey(TENANT, session)
        write = text("update perdure.sessions set metadata = cast(:metadata as json) where id = :session")
        for metadata, expected in (({"team": "ops"}, '"ops"'), ({"team": "db"}, '"db"')):
            shown = database.seal(key).value(metadata) if expected == '"ops"' else metadata
            async with database.transaction() as connection:
                await connection.execute(write, {"session": session, "metadata": escaped_json(shown)})
            assert await unlabelled(database) == ([session] if expected == '"ops"' else [])
            await keep_labels(database)
            assert await labels(database, session) == {("team", expected)}
            assert await unlabelled(database) == []


async def test_sealing_again_changes_no_label(stack: Stack) -> None:
    """Rows from before there were keys, and those of the key before: what a list finds stays the same meanwhile."""
    one, two = new_key("one"), new_key("two")
    async with labelled(stack, "team") as database:
        session = await opened(database, {"team": "web"})
        url = database.dsn()
        for keys in (one, f"{two},{one}"):
            sealing = Database(url, keyring=parse_keys(keys))
            assert (await reseal(sealing))["sessions.metadata"] == 1
            assert await found(sealing, {"team": "web"}) == [session]
            await keep_labels(sealing)
            assert await found(sealing, {"team": "web"}) == [session]
            assert await unlabelled(sealing) == []
            await sealing.close()


async def test_of_sealed_metadata_only_allowed_keys_are_clear(stack: Stack) -> None:
    """Nowhere in the table is anything else of it; and without allowed keys nothing is."""
    async with labelled(stack, "team", keyring=parse_keys(new_key("one"))) as database:
        await opened(database, {"team": "web", "secret": "MARKER"})
        async with database.transaction() as connection:
            shown = "select to_json(t)::text from perdure.session_labels t"
            text_of = "\n".join(await connection.scalars(text(shown)))
        assert '"web' in text_of.replace("\\", "")
        assert "MARKER" not in text_of


async def test_a_rebuild_keeps_labels(stack: Stack, eventful: tuple[SessionKey, Snapshot]) -> None:
    """A session whose index is made again from its history has the metadata and the labels that it had."""
    key, _ = eventful
    async with stack.connect() as using:
        name = f"rebuilt_{uuid.uuid4().hex}"
        await write_metadata(using.database, key, {name: "web"})
        await set_filterable(using.database, [*await list_filterable(using.database), name])
        await filled(using.database)
        await rebuild(using, key)
        assert await found(using.database, {name: "web"}, tenant=key.tenant) == [key.session]
        await set_filterable(using.database, [one for one in await list_filterable(using.database) if one != name])
        await write_metadata(using.database, key, {}, [name])
