"""`perdure doctor`: well, ill and healed."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from perdure.runtime.checks.examination import NAMES
from tests.acceptance.terminal import Terminal
from tests.integration.stack import eventually


def servers(folder: Path) -> tuple[str, str]:
    """The addresses that `perdure dev` has noted."""
    record = json.loads((folder / ".perdure/servers.json").read_text())
    return record["temporal"]["address"], record["postgres"]["url"]


async def sql(folder: Path, statement: str) -> None:
    connection = await asyncpg.connect(servers(folder)[1])
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def wrong(document: Any) -> dict[str, list[str]]:
    """What a doctor's document says is wrong, by check."""
    return {check["name"]: check["found"] for check in document["checks"] if not check["ok"]}


def test_all_is_well(perdure: Terminal) -> None:
    """With servers, schema, agents and a worker in place the exit code is 0, and each check says what it saw."""
    document = perdure("doctor", "--json").json
    assert document["ok"] is True
    names = ["postgresql", "temporal", *NAMES]
    assert [check["name"] for check in document["checks"]] == names
    assert "calc on perdure" in str(document["checks"][names.index("agents")]["found"])
    assert perdure("doctor").out.count("ok  ") == len(names)


INDEX = "pg_index set indisvalid = {} where indexrelid = 'perdure.runs_open'::regclass"
LONELY = """
insert into perdure.agents select tenant_id, 'lonely', agent_id, workflow_type, 'nobody', spec, seen_at
  from perdure.agents where name = 'calc'
"""


@pytest.mark.parametrize(
    ("harm", "cure", "check", "found"),
    [
        (f"update {INDEX.format(False)}", f"update {INDEX.format(True)}", "indexes", "perdure.runs_open"),
        (LONELY, "delete from perdure.agents where name = 'lonely'", "workers", "nobody"),
    ],
    ids=["a broken index", "a queue without a worker"],
)
async def test_what_is_wrong_is_found(perdure: Terminal, harm: str, cure: str, check: str, found: str) -> None:
    """A broken index and a task queue that nobody serves are exit code 1, by name."""
    await sql(perdure.folder, harm)
    try:
        sick = await asyncio.to_thread(perdure, "doctor", "--json", code=1)
        assert list(wrong(sick.json)) == [check]
        assert found in wrong(sick.json)[check][0]
        assert found in (await asyncio.to_thread(perdure, "doctor", code=1)).out
    finally:
        await sql(perdure.folder, cure)


async def test_a_run_that_lost_its_execution_is_found(perdure: Terminal) -> None:
    """A run whose workflow was terminated is named, until a worker has taken it up again."""
    run = perdure.start("run", "sleeper", "Go.")
    run.until(lambda: "-> sleep" in run.err)
    session = run.session
    client = await Client.connect(servers(perdure.folder)[0])

    async def ill() -> dict[str, list[str]]:
        """A worker that was faster than the doctor is robbed of its execution again."""
        with suppress(RPCError):
            await client.get_workflow_handle(f"session/default/{session}").terminate()
        looking = perdure.start("doctor", "--json")
        await asyncio.to_thread(looking.wait)
        return wrong(looking.json)

    ((check, found),) = (await eventually(ill, what="that the doctor finds it")).items()
    assert (check, session in found[0]) == ("executions", True)
    await asyncio.to_thread(perdure, "sessions", "cancel", session)
    assert await asyncio.to_thread(run.wait) == 4


def test_a_repair_says_what_it_did(perdure: Terminal) -> None:
    """A look changes nothing and exits with 1; a repair mends and exits with 0; then all is well. A tenant's is its own."""
    done = perdure("run", "slow", "Go.", "--json").json
    session, run = done["session"], done["run"]
    hold = f"update perdure.session_heads set active_run = '{run}' where session_id = '{session}'"
    asyncio.run(sql(perdure.folder, hold))
    for _ in range(2):
        sick = perdure("doctor", "--only", "heads", "--json", code=1).json
        (check,) = [check for check in sick["checks"] if check["name"] == "heads"]
        assert (sick["repair"], check["count"], check["repaired"]) == (False, 2, 0)
        assert {finding["session"] for finding in check["findings"]} == {session}
        assert f"run {run}, which is completed, still counts as active" in check["found"][0]
    assert perdure("doctor", "--only", "heads", "--tenant", "another", "--repair").out.count("WRONG") == 0
    mended = perdure("doctor", "--only", "heads", "--repair", "--json").json
    (check,) = [check for check in mended["checks"] if check["name"] == "heads"]
    assert (mended["ok"], check["ok"], check["count"], check["repaired"]) == (True, True, 2, 2)
    assert [finding["outcome"] for finding in check["findings"]] == ["repaired", "it is there no more"]
    assert perdure("doctor", "--json").json["ok"] is True
    assert perdure("run", "slow", "Again.", "--session", session, "--json").json["status"] == "completed"
    perdure("doctor", "--only", "nothing", code=2).check_error("it must be one of drift, indexes")


def test_an_index_is_made_again(perdure: Terminal) -> None:
    """`doctor --rebuild` makes a session's rows again from its history; its page is then the same."""
    session = perdure("run", "calc", "1+2?", "--json").json["session"]
    before = perdure("sessions", "show", session, "--json").out
    run = perdure("sessions", "show", session, "--json").json["runs"][0]["run"]
    asyncio.run(sql(perdure.folder, f"delete from perdure.runs where id = '{run}'"))
    report = perdure("doctor", "--rebuild", session, "--json").json
    assert (report["runs"], report["lost_executions"]) == (1, [])
    assert perdure("sessions", "show", session, "--json").out == before
    perdure("doctor", "--rebuild", "x", code=2).check_error("is not a UUIDv4")
