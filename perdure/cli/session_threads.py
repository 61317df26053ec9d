"""`perdure sessions thread` and `import-threads`: sessions as ThreadProtocol's threads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.api.models import OthersText, OthersTools
from perdure.cli.connection import open_sessions, open_store
from perdure.cli.output import put, put_json, say
from perdure.cli.parameters import AsJson, SessionId
from perdure.cli.session_files import read_document
from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONValue, loads

if TYPE_CHECKING:  # takes long to import
    from perdure.runtime.threads.incoming import ThreadReading


def thread(
    session: SessionId,
    node: Annotated[
        str | None, typer.Option(metavar="NODE", help="Whose thread; the current node's by default.")
    ] = None,
    canonical: Annotated[bool, typer.Option(help="The bytes that are the same everywhere (RFC 8785).")] = False,
    every: Annotated[bool, typer.Option("--all", help="A list of all threads, parents before their branches.")] = False,
) -> None:
    """Write a session's thread as ThreadProtocol's JSON."""
    if every and (canonical or node is not None):
        raise InvalidInput("--all lists every node's thread; leave --node and --canonical out")
    put(asyncio.run(_thread(session, node, canonical=canonical, every=every)))


async def _thread(session: str, node: str | None, *, canonical: bool, every: bool) -> str:
    from perdure.protocols.threadprotocol.canonical import canonical_bytes, display_bytes
    from perdure.runtime.threads.outgoing import session_threads, thread_of_node
    from perdure.store.sessions import read_session
    from perdure.uap.ids import root_node_id

    async with open_store() as store:
        key = store.key(session)
        row = await read_session(store.database, key)
        found = await session_threads(store.database, key)
    if every:
        return f"[{','.join(display_bytes(made).decode() for made in found)}]\n"
    named = node or row.current_node or root_node_id(key.session)
    made = thread_of_node(found, named)
    if made is None:
        raise InvalidInput(f"session {session} has no thread node {named[:40]!r}; `perdure sessions show` lists them")
    return canonical_bytes(made).decode() if canonical else f"{display_bytes(made).decode()}\n"


def import_threads(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A thread's JSON, or a list of them; - for stdin.")],
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Who goes on with it.")],
    as_agent: Annotated[
        str | None, typer.Option(metavar="IDENTIFIER", help="The agent of the threads that it goes on as.")
    ] = None,
    lenient: Annotated[bool, typer.Option(help="Keep what can be kept of a thread that breaks rules.")] = False,
    others_text: Annotated[OthersText, typer.Option(help="Whose voice other agents' words have.")] = OthersText.USER,
    others_tools: Annotated[OthersTools, typer.Option(help="What is shown of their tool calls.")] = OthersTools.HIDE,
    as_json: AsJson = False,
) -> None:
    """Store threads from a file as a session, whole or not at all."""
    from perdure.protocols.threadprotocol.viewing import View
    from perdure.runtime.threads.incoming import ThreadReading

    try:
        value = loads(read_document(file).encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} is no JSON: {error}") from error
    reading = ThreadReading(as_agent or "", lenient, View(others_text.value, others_tools.value))
    session, mended = asyncio.run(_import(value, agent, reading))
    if as_json:
        put_json({"session": session, "agent": agent, "mended": mended})
    else:
        for line in mended:
            say(f"mended: {line}")
        put(f"{session}\n")


async def _import(value: JSONValue, agent: str, reading: ThreadReading) -> tuple[str, list[JSONValue]]:
    async with open_sessions() as sessions:
        session, read = await sessions.import_threads(value, agent, reading=reading)
    return session, [str(problem) for found in read.problems.values() for problem in found]
