"""`perdure sessions pause`, `resume`, `cancel`, `patch` and `delete`: what an operator does to a session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.connection import open_sessions
from perdure.cli.output import put, put_json
from perdure.cli.parameters import AsJson, SessionId, SessionLimit, checked_limits, checked_run_id, checked_text
from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, JSONValue

if TYPE_CHECKING:  # takes long to import, and what only reads does without
    from perdure.runtime.sessions import Controlled, Sessions

_SAID = {
    "paused": "paused",
    "resumed": "resumed",
    "cancelled": "cancelled",
    "idle": "idle: there is nothing to cancel",
    "ignored": "ignored: that run is not the active one",
    "recorded": "recorded; it is done as soon as a worker runs",
}


def pause(session: SessionId, as_json: AsJson = False) -> None:
    """Hold a session's run before its next model or tool call; inputs are accepted and wait."""
    _control(session, lambda sessions: sessions.pause(session), as_json=as_json)


def resume(session: SessionId, as_json: AsJson = False) -> None:
    """Let a paused session go on."""
    _control(session, lambda sessions: sessions.resume(session), as_json=as_json)


def cancel(
    session: SessionId,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="This run, not the active one.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also withdraw all that is queued.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cancel the active run, or a named one; a queued one is withdrawn."""
    if everything and run is not None:
        raise InvalidInput("--all cancels every run of the session; leave --run out")
    named = None if run is None else checked_run_id(run)

    async def act(sessions: Sessions) -> Controlled:
        return await (sessions.cancel_session(session) if everything else sessions.cancel(session, run=named))

    _control(session, act, as_json=as_json)


def patch(
    session: SessionId,
    title: Annotated[str | None, typer.Option(help="The session's title from now on.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=JSON", help="Set a key of the metadata; may be given often.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Remove a key of the metadata; may be given often.")
    ] = None,
    limit: SessionLimit = None,
    no_limits: Annotated[bool, typer.Option("--no-limits", help="Take the session's limits away.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change a session's title, metadata and limits, also while it runs."""
    if title is None and not metadata and not remove and not limit and not no_limits:
        raise InvalidInput("nothing is to be changed; give --title, --metadata, --remove, --limit or --no-limits")
    given: dict[str, Any] = {} if title is None else {"title": checked_text(title, "--title")}
    if limit or no_limits:
        given["limits"] = None if no_limits else checked_limits(limit)
    changed = _read_metadata(metadata or [])

    async def act() -> JSONObject:
        async with open_sessions() as sessions:
            row = await sessions.patch(session, metadata=changed, removed=remove or [], **given)
            shown: JSONObject = {"title": row.title, "metadata": row.metadata, "limits": row.limits}
            return {"session": row.key.session, **shown}

    answer = asyncio.run(act())
    if as_json:
        put_json(answer)
    else:
        put("changed\n")


def _read_metadata(pairs: Sequence[str]) -> dict[str, JSONValue]:
    changed: dict[str, JSONValue] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise InvalidInput(f"--metadata {pair[:40]!r} must be KEY=JSON, such as ticket=7")
        try:
            changed[key] = json.loads(text)
        except ValueError:
            raise InvalidInput(f'--metadata {key}={text[:40]} is no JSON; a text needs quotes: {key}="…"') from None
    return changed


def delete(
    session: SessionId,
    force: Annotated[bool, typer.Option("--force", help="Also while a run is open, which is cut off.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a session and its sub-agents' for good: rows, payloads and Temporal's executions."""

    async def act() -> JSONObject:
        async with open_sessions() as sessions:
            deleted = await sessions.delete(session, force=force)
            return {"session": session, "sessions": deleted.sessions, "executions": deleted.executions}

    answer = asyncio.run(act())
    if as_json:
        put_json(answer)
    else:
        put("deleted\n" if answer["sessions"] else "there was no such session\n")


def _control(session: str, action: Callable[[Sessions], Coroutine[Any, Any, Controlled]], *, as_json: bool) -> None:
    async def act() -> Controlled:
        async with open_sessions() as sessions:
            return await action(sessions)

    reached = asyncio.run(act())
    if as_json:
        put_json(
            {
                "session": session,
                "state": reached.state,
                "event": None if reached.event is None else reached.event.seq,
                "in_flight": list(reached.in_flight),
                "withdrawn": list(reached.withdrawn),
            }
        )
        return
    put(_SAID.get(reached.state, f"the run has ended before: {reached.state}") + "\n")
    for call in reached.in_flight:
        put(
            f"still in flight: {call['kind']} call of step {call['step']}\n"
            if "step" in call
            else "still in flight: a sub-agent\n"
        )
    if reached.withdrawn:
        put(f"withdrawn from the queue: {len(reached.withdrawn)}\n")
