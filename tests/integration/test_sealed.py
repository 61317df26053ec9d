"""With keys set nothing of what is said, done or kept can be read in the database, in Temporal's histories or in logs."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import DamagedSession, KeyMissing
from perdure.runtime.rebuild import rebuild_session
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.checkpoints import list_checkpoints
from perdure.store.database import Database
from perdure.store.events import read_events
from perdure.store.keyring import new_key, parse_keys
from perdure.store.sessions import read_session
from perdure.store.waits import WaitRow, open_waits
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from tests.integration.api_server import ApiProcess
from tests.integration.sealed_place import APP, forms, make_place, raw_histories
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.sub_agents import ask


def _script(*script: Any, **more: Any) -> str:
    return json.dumps({"name": uuid.uuid4().hex, "script": list(script), **more})


def _call(tool: str, text: str | None = None) -> dict[str, Any]:
    return {"tool": tool, "arguments": {} if text is None else {"text": text}}


async def _asked(sessions: Sessions, handle: RunHandle) -> WaitRow:
    async def found() -> WaitRow | None:
        rows = await open_waits(sessions.database, sessions.tenant, handle.session)
        return rows[0] if rows else None

    return await eventually(found, what="a wait")


async def _say_everywhere(sessions: Sessions, word: str) -> tuple[RunHandle, str]:
    """Have a session say a word in each of its places; its run, and the document of the session."""
    script = _script(
        [_call("tell", word), _call("tell", f"fail {word}")],
        [_call("publish", word)],
        [ask("helper", uuid.uuid4().hex, [_call("tell", word)], f"{word} helped")],
        [_call("pick")],
        f"{word} done",
    )
    options = RunOptions(instructions=f"Think of {word}.")
    handle = await sessions.submit("keeper", script, options=options, title=word, metadata={"kept": word})
    approval = await _asked(sessions, handle)
    assert approval.asked["arguments"] == {"text": word}
    edited: JSONObject = {"decision": "approve", "arguments": {"text": f"{word} edited"}}
    await sessions.answer(approval.id, edited, by="somebody")

    async def picked() -> WaitRow | None:
        rows = await open_waits(sessions.database, sessions.tenant, handle.session)
        return rows[0] if rows and rows[0].kind == "client_tool" else None

    await sessions.answer((await eventually(picked, what="the client's tool")).id, {"result": {"x": word}}, by="client")
    turn = await handle.result()
    assert turn.response.text == f"{word} done"
    told = [str(execution.result) for execution in turn.tool_executions]
    assert any(f"published {word} edited" in text for text in told), told
    assert any(f"{word} helped" in text for text in told), told
    broken = await sessions.submit("keeper", _script(**{"break": f"broken {word}"}), session=handle.session)
    with pytest.raises(Exception, match=word):
        await broken.result()
    checkpoints = await list_checkpoints(sessions.database, SessionKey(sessions.tenant, handle.session))
    restored = await sessions.restore(handle.session, str(checkpoints[0]["id"]))
    await sessions.fork(handle.session, str(restored["current"]), f"branch {word}")
    document = await sessions.document(handle.session)
    text = json.dumps(document)
    await sessions.import_session(json.loads(text.replace(handle.session, str(uuid.uuid4()))), "keeper")
    return handle, text


async def test_a_word_that_is_said_everywhere_is_found_nowhere(stack: Stack) -> None:
    """Input, answers, tool arguments and results, approvals, sub-agents, metadata, errors, title: all are sealed.

    And all is read back: the stream's events, the document, the rebuilt index, the replayed history.
    """
    word = f"marker{uuid.uuid4().hex}"
    place = await make_place(stack)
    with place.worker():
        async with place.connect() as sessions:
            handle, document = await _say_everywhere(sessions, word)
            assert document.count(word) > 20
            key = SessionKey(sessions.tenant, handle.session)
            said = json.dumps([event.to_json() for event in await read_events(sessions.database, key, after=0)], default=str)  # fmt: skip
            assert said.count(word) > 10
            await rebuild_session(sessions.client, sessions.database, key)
            assert json.dumps(await sessions.document(handle.session)) == document
            code, out, err = await asyncio.to_thread(place.command, "replay", APP, "--session", handle.session)
            assert code == 0, out + err
            rows = await place.dump()
            children = [json.loads(line)["id"] for line in rows["sessions"].splitlines()]
            ids = [SessionKey(sessions.tenant, session).workflow_id for session in children]
            histories = await raw_histories(sessions.client, [name for name in ids if await _known(sessions, name)])
    assert len(histories) >= 2, "the session's and its sub-agent's"
    for table, text in rows.items():
        assert not [form for form in forms(word) if form in text], table
    for workflow, body in histories.items():
        assert word.encode() not in body, workflow
        assert b"binary/encrypted" in body
    assert word not in "".join(place.said)
    assert {"messages", "events", "payloads", "checkpoints"} <= {table for table, text in rows.items() if text}


async def _known(sessions: Sessions, workflow: str) -> bool:
    try:
        await sessions.client.get_workflow_handle(workflow).describe()
    except Exception:  # noqa: BLE001  # the imported session has no workflow
        return False
    return True


async def test_keys_are_rotated_while_sessions_go_on(stack: Stack) -> None:
    """A run that is parked under the old key goes on under the new one; once all is sealed again the old key may go."""
    place = await make_place(stack, keys=2)
    new, old = place.keys
    with place.worker([old]):
        async with place.connect([old]) as sessions:
            handle = await sessions.submit("keeper", _script([_call("publish", "first")], "ready"), title="A title")
            wait = await _asked(sessions, handle)
    with place.worker([new, old]):

        async def needed() -> str | None:  # Temporal's list, which tells of the open session, lags behind
            code, out, err = await asyncio.to_thread(place.command, "encryption", "rotate", "--json")
            assert code in (0, 1), out + err
            return out if code == 1 else None

        report = json.loads(await eventually(needed, what="the old key is needed"))
        assert report["key"] == "key-0"
        assert report["needed"] == {"key-1": 1}, "the open session's history"
        async with place.connect([new, old]) as sessions:
            await sessions.answer(wait.id, {"decision": "approve"}, by="somebody")
            assert (await handle_of(sessions, handle)).response.text == "ready"

        async def rotated() -> bool:
            return (await asyncio.to_thread(place.command, "encryption", "rotate", "--json"))[0] == 0

        await eventually(rotated, what="the old key is needed no more")
    rows = await place.dump()
    assert "key-1:" not in "".join(rows.values())
    with place.worker([new]):
        async with place.connect([new]) as sessions:
            document = json.dumps(await sessions.document(handle.session))
            assert "ready" in document
            row = await read_session(sessions.database, SessionKey(sessions.tenant, handle.session))
            assert row.title == "A title"
            again = await sessions.submit("keeper", _script("still here"), session=handle.session)
            assert (await again.result()).response.text == "still here"
    for keys in ([], [old], [old.replace("key-1", "key-0")]):
        code, _, err = await asyncio.to_thread(place.command, "sessions", "list", keys=keys)
        assert code == 3, err
        assert "PERDURE_ENCRYPTION_KEYS" in err
        assert old.partition(":")[2] not in err


async def handle_of(sessions: Sessions, handle: RunHandle) -> Any:
    """The turn of a run, by another process than the one that began it."""
    return await (await sessions.run(handle.id)).result()


async def test_what_was_written_before_there_were_keys_is_read_and_can_be_sealed(stack: Stack) -> None:
    """Keys come into a database that has sessions; from the rotation on nothing of them is in the clear."""
    word = f"marker{uuid.uuid4().hex}"
    place = await make_place(stack)
    with place.worker([]):
        async with place.connect([]) as sessions:
            handle = await sessions.submit("keeper", _script([_call("tell", word)], word), title=word)
            await handle.result()
            document = await sessions.document(handle.session)
    assert any(word in text for text in (await place.dump()).values())
    async with place.connect() as sessions:
        assert await sessions.document(handle.session) == document
        code, out, err = await asyncio.to_thread(place.command, "encryption", "rotate")
        assert code == 0, out + err
        assert await sessions.document(handle.session) == document
    for table, text in (await place.dump()).items():
        assert not [form for form in forms(word) if form in text], table
    code, out, _ = await asyncio.to_thread(place.command, "encryption", "new-key", "--id", "next")
    assert (code, parse_keys(out.strip()).ids) == (0, ("next",))
    status = json.loads((await asyncio.to_thread(place.command, "encryption", "status", "--json"))[1])
    (key,) = status["keys"]
    assert key["id"] == "key-0"
    assert key["values"] > 10


async def test_what_was_changed_or_moved_is_never_used(stack: Stack) -> None:
    """A body of one session in the row of another, a flipped bit, and rows that lack their key are errors."""
    place = await make_place(stack)
    with place.worker():
        async with place.connect() as sessions:
            handles = [await sessions.submit("keeper", _script("words"), title=f"title {n}") for n in range(2)]
            for handle in handles:
                await handle.result()
            first, second = (handle.session for handle in handles)
            swap = (
                "update perdure.sessions set title = (select title from perdure.sessions where id = $2) where id = $1"
            )
            await place.change(swap, first, second)
            with pytest.raises(DamagedSession, match=f"session {first}"):
                await sessions.document(first)
            await place.change(
                "update perdure.messages set body = set_byte(body, length(body) - 1, get_byte(body, length(body) - 1) # 1) "
                "where session_id = $1",
                second,
            )
            with pytest.raises(DamagedSession, match="does not open"):
                await sessions.document(second)
        stranger = Database(place.url, keyring=parse_keys(""))
        with pytest.raises(KeyMissing, match=r"'key-0'.*PERDURE_ENCRYPTION_KEYS"):
            await read_events(stranger, SessionKey(sessions.tenant, first), after=0)
        await stranger.close()


async def test_no_process_starts_without_the_keys(stack: Stack) -> None:
    """A worker and an API that lack them end at once and say what to set; nothing that others can read fails in them."""
    place = await make_place(stack)
    async with place.connect() as sessions:
        assert sessions.database.keyring.first == "key-0"
    worker = WorkerProcess(stack, APP, **place.environment([]))
    api = ApiProcess(stack, **place.environment([new_key("another")]))
    await asyncio.to_thread(worker.wait_dead)
    assert worker.code == 3, worker.said
    assert await asyncio.to_thread(api.wait_dead) == 3, api.said
    for said in (worker.said, api.said):
        assert "'key-0'" in said
        assert "PERDURE_ENCRYPTION_KEYS" in said


@pytest.mark.parametrize("point", ["generate.stored", "call_tool.stored", "end_run.storing"])
async def test_a_worker_that_dies_loses_nothing_that_is_sealed(stack: Stack, tmp_path: Path, point: str) -> None:
    """Another worker with the keys adopts the run from history and rows, and nothing is there twice."""
    place = await make_place(stack)
    async with place.connect() as sessions:
        with place.worker(PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "crashed")) as first:
            handle = await sessions.submit("keeper", _script([_call("tell", "a")], [_call("tell", "b")], "done"))
            await asyncio.to_thread(first.wait_dead)
        with place.worker():
            turn = await handle.result()
        assert turn.response.text == "done"
        assert [str(execution.result) for execution in turn.tool_executions] == ["told a", "told b"]
