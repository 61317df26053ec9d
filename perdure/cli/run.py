"""`perdure run`: hand an agent its input, and watch what it makes of it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, cast

import typer

from perdure.cli import exits
from perdure.cli.connection import open_sessions
from perdure.cli.output import put, put_json, put_text, say
from perdure.cli.parameters import AsJson, SessionLimit, checked_cost, checked_limits, checked_text
from perdure.cli.transcript import Transcript
from perdure.config import load_settings
from perdure.errors import InvalidInput
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.turns import read_turn
from perdure.store.accepted import Accepted
from perdure.store.runs import RunRow
from perdure.uap.options import RunOptions
from perdure.uap.session_limits import SessionLimits
from perdure.upp.json_value import JSONObject

_SILENCE_S = 5.0
_CODES = {"completed": exits.OK, "failed": exits.FAILED, "cancelled": exits.CANCELLED}

app = typer.Typer(add_completion=False)


class Policy(StrEnum):
    """What an input does while a run is active, see `Sessions.submit`."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    STEER = "steer"


@dataclass
class _Order:
    """One input on its way, and the run it became."""

    agent: str
    text: str
    session: str | None
    key: str | None
    options: RunOptions
    policy: str
    limits: SessionLimits | None = None
    handle: RunHandle | None = None


@app.command()
def run(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")],
    text: Annotated[str, typer.Argument(metavar="INPUT", help="What to tell it; - reads stdin.")],
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on in this session.")] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key: the same key again is the same run.")] = None,
    policy: Annotated[Policy, typer.Option(help="What it does while a run is active.")] = Policy.ENQUEUE,
    instructions: Annotated[str | None, typer.Option(help="Added below the agent's system prompt.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="End the run after so many steps.")] = None,
    max_cost: Annotated[str | None, typer.Option(help="Begin no step once the run has cost so much.")] = None,
    max_total_tokens: Annotated[
        int | None, typer.Option(min=1, help="Begin no step once the run has used so many tokens.")
    ] = None,
    max_duration: Annotated[float | None, typer.Option(help="End the run after so many seconds.")] = None,
    limit: SessionLimit = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until the run has ended.")] = True,
    as_json: AsJson = False,
) -> int:
    """Hand an agent its input and stream the answer; the run goes on whatever happens here."""
    options = RunOptions(
        instructions=None if instructions is None else checked_text(instructions, "--instructions"),
        max_steps=max_steps,
        max_cost=None if max_cost is None else checked_cost(max_cost),
        max_total_tokens=max_total_tokens,
        max_duration=cast(Any, max_duration),
    )
    order = _Order(
        agent=checked_text(agent, "AGENT"),
        text=checked_text(_read_stdin() if text == "-" else text, "INPUT"),
        session=session,
        key=None if key is None else checked_text(key, "--key"),
        options=options,
        policy=policy,
        limits=checked_limits(limit),
    )
    if order.limits is not None and session is not None:
        raise InvalidInput(
            "--limit is for a session that is opened; `perdure sessions patch` changes those of this one"
        )
    try:
        return asyncio.run(_run(order, wait=wait, as_json=as_json))
    except KeyboardInterrupt:
        return _interrupted(order.handle, as_json=as_json)


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"stdin is not UTF-8 text: {error.reason} at byte {error.start}") from None


async def _run(order: _Order, *, wait: bool, as_json: bool) -> int:
    async with open_sessions() as sessions:
        handle = order.handle = await sessions.submit(
            order.agent, order.text, session=order.session, key=order.key, options=order.options,
            policy=order.policy, max_queue=load_settings().max_queued_inputs, limits=order.limits,
        )  # fmt: skip
        if not wait:
            _show_accepted(handle, as_json=as_json)
            return exits.OK
        say(f"run {handle.id} of session {handle.session}")
        if handle.accepted.action != "started":
            say(_accepted_text(handle.accepted))
        if not as_json:
            return await _watch(handle)
        row = await _follow(handle, Transcript(_nowhere, _nowhere))
        put_json(await _outcome(sessions, row))
        return _CODES[row.status]


def _nowhere(_: str) -> None:
    """Where the transcript goes that nobody asked for."""


def _show_accepted(handle: RunHandle, *, as_json: bool) -> None:
    accepted = handle.accepted
    if as_json:
        told: JSONObject = {"status": accepted.status, "paused": accepted.paused, "repeated": accepted.repeated}
        told |= {"action": accepted.action, "target": accepted.target, "place": accepted.place}
        put_json({**_ids(handle), **told})
        return
    put(f"run {handle.id}\nsession {handle.session}\n")
    say(f"{_accepted_text(accepted)}; {_how_to_follow(handle)}")


def _accepted_text(accepted: Accepted) -> str:
    """What becomes of an input, in words."""
    about = "" if accepted.target is None else f" run {accepted.target}"
    place = f", number {accepted.place} in the queue" if accepted.place and accepted.action != "started" else ""
    return f"{accepted.status}: {accepted.action.replace('_', ' ')}{about}{place}"


async def _watch(handle: RunHandle) -> int:
    if handle.accepted.paused:
        say(f"the session is paused; `perdure sessions resume {handle.session}` lets the run begin")
    row = await _follow(handle, Transcript(put_text, say))
    if row.status == "failed":
        error = row.error or {}
        say(f"error: the run failed: {error.get('type')}: {error.get('message')}", style="red")
    elif row.status == "cancelled":
        say("the run was cancelled")
    else:
        usage = row.usage or {}
        spent = f"{usage.get('inputTokens', 0)} tokens in and {usage.get('outputTokens', 0)} out"
        cost = f", cost {usage['cost']}" if "cost" in usage else ""
        say(f"completed: {row.step} steps, {row.cycles} model calls, {spent}{cost}")
    return _CODES[row.status]


async def _follow(handle: RunHandle, transcript: Transcript) -> RunRow:
    """Show the run's events up to its end; whoever waits in silence is told why that may be."""
    hint = asyncio.get_running_loop().call_later(_SILENCE_S, _explain_silence)
    try:
        async with aclosing(handle.events()) as events:
            async for event in events:
                if event.type != "run.queued":
                    hint.cancel()
                transcript.show(event)
    finally:
        hint.cancel()
    return await handle.status()


def _explain_silence() -> None:
    say("no worker has begun it yet; it is stored, and runs when one does: `perdure worker MODULE:APP`")


async def _outcome(sessions: Sessions, row: RunRow) -> JSONObject:
    outcome: JSONObject = {"run": row.id, "session": row.key.session, "status": row.status}
    if row.status == "completed":
        return {**outcome, "turn": (await read_turn(sessions.database, row)).to_json()}
    return {**outcome, "error": row.error or {"type": "RunCancelled", "message": "the run was cancelled"}}


def _interrupted(handle: RunHandle | None, *, as_json: bool) -> int:
    if handle is None:
        message = "interrupted before the input was stored for sure; with --key it can be repeated safely"
        ids: JSONObject = {}
    else:
        message, ids = f"interrupted; the run goes on, {_how_to_follow(handle)}", _ids(handle)
    say(message, style="")
    if as_json:
        put_json({**ids, "error": {"type": "Interrupted", "message": message}})
    return exits.INTERRUPTED


def _ids(handle: RunHandle) -> JSONObject:
    return {"run": handle.id, "session": handle.session}


def _how_to_follow(handle: RunHandle) -> str:
    return f"follow it with `perdure sessions events {handle.session} --follow`"
