"""`perdure sessions fork`, `checkout`, `merge`, `restore` and `resume-run`: changes of a session's thread tree."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.cli.connection import open_sessions
from perdure.cli.output import put, put_json
from perdure.cli.parameters import AsJson, SessionId
from perdure.upp.json_value import JSONObject

Node = Annotated[str, typer.Argument(metavar="NODE", help="A thread node's id, as `perdure sessions show` lists them.")]
Key = Annotated[str | None, typer.Option("--key", help="Idempotency key: the same key again is the same change.")]
_RECORDED = "recorded; it is done as soon as a worker runs"


def fork(
    session: SessionId,
    node: Node,
    name: Annotated[str | None, typer.Option(help="The branch's name, for people.")] = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make a branch of a thread node; the current node stays what it is."""
    detail: JSONObject = {"node": node} if name is None else {"node": node, "name": name}
    _change(session, "fork", detail, key, as_json=as_json)


def checkout(session: SessionId, node: Node, key: Key = None, as_json: AsJson = False) -> None:
    """Make a thread node the current one: the next input goes on from it."""
    _change(session, "checkout", {"node": node}, key, as_json=as_json)


def merge(
    session: SessionId,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The node whose messages are added.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The node that gets what it lacks of them.")],
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Add to one thread node what another's history has and its own lacks."""
    _change(session, "merge", {"source": source, "target": target}, key, as_json=as_json)


def restore(
    session: SessionId,
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A checkpoint's id.")],
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Go back to a checkpoint; what was said since stays on its branch, untouched."""
    _change(session, "restore", {"checkpoint": checkpoint}, key, as_json=as_json)


def resume_run(
    session: SessionId,
    checkpoint: Annotated[
        str | None, typer.Argument(metavar="CHECKPOINT", help="A checkpoint's id; the current one by default.")
    ] = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Go on with the run of a checkpoint, from the step after it, on a branch of its own; does not wait for its end."""
    run = asyncio.run(_resume(session, checkpoint, key))
    if as_json:
        put_json({"session": session, "run": run})
    else:
        put(f"run {run}\nfollow it: perdure sessions events {session} --follow\n")


async def _resume(session: str, checkpoint: str | None, key: str | None) -> str:
    async with open_sessions() as sessions:
        return (await sessions.resume_run(session, checkpoint, key=key)).id


def _change(session: str, kind: str, detail: JSONObject, key: str | None, *, as_json: bool) -> None:
    made = asyncio.run(_hand_in(session, kind, detail, key))
    if as_json:
        put_json({"session": session, "state": "changed", **made})
    elif "state" in made:
        put(_RECORDED + "\n")
    else:
        put(f"{made['node']}\n" if kind == "fork" else f"current node: {made['current']}\n")


async def _hand_in(session: str, kind: str, detail: JSONObject, key: str | None) -> JSONObject:
    async with open_sessions() as sessions:
        return await sessions.change(session, kind, detail, key=key)
