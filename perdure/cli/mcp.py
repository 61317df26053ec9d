"""`perdure mcp`: a stage workflow for an MCP client that starts this process and speaks to it through its streams."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connection import open_sessions
from perdure.cli.output import say
from perdure.cli.parameters import checked_text, no_stage_session
from perdure.errors import InvalidInput
from perdure.protocols.mcp import extra
from perdure.protocols.uaip.request import RequestRefused
from perdure.uaip.refusal import Reason

if TYPE_CHECKING:  # takes long to import, and is not always there
    from perdure.api.doors.mcp_seat import StageSeat, Standing
    from perdure.runtime.stages import Stages

app = typer.Typer(add_completion=False)


@app.command()
def mcp(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's name, as a worker serves it.")],
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Go on with this stage session.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose sessions, not the configured tenant's.")] = None,
) -> None:
    """Serve a workflow to the MCP client at stdin and stdout; the tools are those of the session's stage."""
    name = checked_text(workflow, "WORKFLOW")
    named = None if session is None else checked_text(session, "--session")
    if not extra.is_there():
        raise InvalidInput(extra.MISSING)
    asyncio.run(_serve(name, named, tenant))


async def _serve(workflow: str, session: str | None, tenant: str | None) -> None:
    from perdure.api.doors.mcp_stdio import serve_stdio

    async with open_sessions(tenant) as sessions:
        seat, standing = await _seated(sessions.stages, workflow, session)
        opened = seat.id.session
        say(f"stage session {opened}: `perdure mcp {workflow} --session {opened}` goes on with it")
        await serve_stdio(seat, standing)


async def _seated(stages: Stages, workflow: str, session: str | None) -> tuple[StageSeat, Standing]:
    """The seat of this process's client, at the named session or a new one."""
    from perdure.api.doors.mcp_seat import StageSeat
    from perdure.protocols.mcp.identity import Seat

    try:
        opened = session or (await stages.initialize(workflow)).key.session
        seat = StageSeat(stages, workflow, Seat(opened), is_whole=True)
        return seat, await seat.look()
    except RequestRefused as error:
        if error.refusal.reason is Reason.SESSION_NOT_FOUND:
            raise no_stage_session(str(session)) from error
        raise InvalidInput(
            f"no worker of tenant {stages.tenant!r} has workflow {workflow[:80]!r}; `perdure stages workflows` lists them"
        ) from error
