"""Checks of what a session leaves behind: rows whose session is gone, deletions that were cut off, bodies without a name."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial

from temporalio.client import Client

from perdure.errors import UserError
from perdure.runtime.checks.check import Finding, Scope
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database
from perdure.store.faults import GONE, MENDED
from perdure.store.orphans import OWNED, Orphans, delete_orphans, page_orphans
from perdure.store.unfinished import find_unfinished
from perdure.store.unnamed_payloads import UnnamedPayload, delete_unnamed, find_unnamed
from perdure.uap.session_key import SessionKey

_PAGE = 500


async def find_orphans(scope: Scope) -> AsyncGenerator[Finding]:
    """Rows of whatever table whose session is gone, table by table, page by page."""
    for table in OWNED:
        after: str | None = ""
        while after is not None:
            page = await page_orphans(scope.database, scope.tenant, table, after=after, limit=_PAGE)
            for orphans in page.orphans:
                yield _finding(scope.database, orphans)
            after = page.last


def _finding(database: Database, orphans: Orphans) -> Finding:
    rows = "row" if orphans.count == 1 else "rows"
    what = f"it is gone, and {orphans.table} has {orphans.count} {rows} of it"
    return Finding(what, "--repair deletes them", orphans.key, partial(_delete, database, orphans))


async def _delete(database: Database, orphans: Orphans) -> str:
    return MENDED if await delete_orphans(database, orphans) else GONE


class DeletionCheck:
    """Deletions that were cut off: such a session takes no input, and is still there."""

    name = "deletions"
    well = "no deletion was cut off"

    async def find(self, scope: Scope, sessions: Sequence[str]) -> list[Finding]:
        """See base class."""
        found = await find_unfinished(scope.database, scope.tenant, sessions)
        keys = [SessionKey(scope.tenant, session) for session in found]
        return [
            Finding("its deletion was cut off", "--repair finishes it", key, partial(_finish, scope, key))
            for key in keys
        ]


async def _finish(scope: Scope, key: SessionKey) -> str:
    if scope.client is None:
        return "not repaired: Temporal does not answer, and its executions must be ended first"
    sessions = Sessions(scope.client, scope.database, key.tenant)
    try:
        await sessions.delete(key.session, force=True)
    except UserError as error:
        return f"not repaired: {error}"
    finally:
        await sessions.close()
    return MENDED


class PayloadCheck:
    """Bodies that neither a row nor a history names. Without Temporal nothing is said of them."""

    name = "payloads"
    well = "every stored body is named by something"

    async def find(self, scope: Scope, sessions: Sequence[str]) -> list[Finding]:
        """See base class."""
        if scope.client is None:
            return []
        unnamed = await find_unnamed(scope.database, scope.tenant, sessions)
        by_session: dict[SessionKey, list[UnnamedPayload]] = {}
        for payload in unnamed:
            by_session.setdefault(payload.key, []).append(payload)
        findings: list[Finding] = []
        for key, bodies in by_session.items():
            named = await _named_by_histories(scope.client, key, [body.sha256 for body in bodies])
            findings += [_unnamed(scope.database, body) for body in bodies if body.sha256 not in named]
        return findings


def _unnamed(database: Database, payload: UnnamedPayload) -> Finding:
    what = f"nothing names the body {payload.sha256} of {payload.size_bytes} bytes"
    return Finding(what, "--repair deletes it", payload.key, partial(_delete_body, database, payload))


async def _delete_body(database: Database, payload: UnnamedPayload) -> str:
    return MENDED if await delete_unnamed(database, payload) else GONE


async def _named_by_histories(client: Client, key: SessionKey, hashes: Sequence[str]) -> set[str]:
    """Of these hashes those that stand anywhere in the histories of a session's executions: a claim says its hash."""
    quoted = key.workflow_id.replace("\\", "\\\\").replace("'", "\\'")
    found: set[str] = set()
    async for execution in client.list_workflows(f"WorkflowId = '{quoted}'"):
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        async for event in handle.fetch_history_events():
            raw = event.SerializeToString()
            found.update(sha256 for sha256 in hashes if sha256.encode() in raw)
    return found
