"""Bodies that calls and runs name and that are lost: what is put in their place, so that they can be shown."""

from __future__ import annotations

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.faults import Fault
from perdure.store.message_rows import put_payloads
from perdure.store.tables import tool_calls
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import dumps, sha256_hex
from perdure.upp.tool_call import ToolResult

RESULT_LOST = ToolResult("", "the result of this call is lost", is_error=True)


async def put_result_lost(connection: AsyncConnection, key: SessionKey, message: str, index: int) -> None:
    """Say of a call whose result is lost that it is; its message in the thread is the thread's to mend."""
    await put_result(connection, key, message, index, dumps(RESULT_LOST.result))


async def _replace_result(connection: AsyncConnection, key: SessionKey, item: str) -> None:
    message, _, index = item.rpartition("/")
    await put_result_lost(connection, key, message, int(index))


async def put_result(connection: AsyncConnection, key: SessionKey, message: str, index: int, body: bytes) -> None:
    """Write an error as a call's result, in a transaction that holds the session."""
    await put_payloads(connection, key, [body])
    own = (
        tool_calls.c.tenant_id == key.tenant,
        tool_calls.c.session_id == key.session,
        tool_calls.c.message_id == message,
        tool_calls.c.index == index,
    )
    await connection.execute(
        update(tool_calls)
        .where(*own)
        .values(state="done", is_error=True, result_sha256=sha256_hex(body), result_bytes=len(body))
    )


LOST_RESULT = Fault(
    name="lost_result",
    what="the result of call {item} is lost: there is no body {detail}",
    find="""
select c.session_id, c.message_id || '/' || c.index as item, c.result_sha256 as detail
  from perdure.tool_calls c
  join perdure.session_heads h on h.tenant_id = c.tenant_id and h.session_id = c.session_id and not h.deleting
 where c.tenant_id = :tenant and c.session_id = any(cast(:sessions as text[])) and c.state = 'done'
   and not exists (select 1 from perdure.payloads p where p.tenant_id = c.tenant_id and p.session_id = c.session_id
                      and p.sha256 = c.result_sha256)
""",
    remedy="restore it from a backup; else --repair puts an error in its place",
    mend=_replace_result,
)

LOST_ARGUMENTS = Fault(
    name="lost_arguments",
    what="what call {item} was run with is lost: there is no body {detail}",
    find="""
select c.session_id, c.message_id || '/' || c.index as item, c.used_sha256 as detail
  from perdure.tool_calls c
  join perdure.session_heads h on h.tenant_id = c.tenant_id and h.session_id = c.session_id and not h.deleting
 where c.tenant_id = :tenant and c.session_id = any(cast(:sessions as text[])) and c.used_sha256 is not null
   and not exists (select 1 from perdure.payloads p where p.tenant_id = c.tenant_id and p.session_id = c.session_id
                      and p.sha256 = c.used_sha256)
""",
    remedy="restore it from a backup; else --repair has the call show the model's own arguments",
    mend="""
update perdure.tool_calls set used_sha256 = null
 where tenant_id = :tenant and session_id = :session and message_id || '/' || index = :item
""",
)

LOST_TURN = Fault(
    name="lost_turn",
    what="the turn that middleware gave run {item} is lost: there is no body {detail}",
    find="""
select r.session_id, r.id as item, r.turn_sha as detail
  from perdure.runs r
  join perdure.session_heads h on h.tenant_id = r.tenant_id and h.session_id = r.session_id and not h.deleting
 where r.tenant_id = :tenant and r.session_id = any(cast(:sessions as text[])) and r.turn_sha is not null
   and not exists (select 1 from perdure.payloads p where p.tenant_id = r.tenant_id and p.session_id = r.session_id
                      and p.sha256 = r.turn_sha)
""",
    remedy="restore it from a backup; else --repair has the run show the turn that its messages make",
    mend="update perdure.runs set turn_sha = null where tenant_id = :tenant and session_id = :session and id = :item",
)

LOST_FAULTS = (LOST_RESULT, LOST_ARGUMENTS, LOST_TURN)
