"""`perdure sessions export` and `import`: sessions as files, UAP's SessionJSON."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli.connection import open_sessions, open_store
from perdure.cli.output import ReaderGone, put, put_json, say
from perdure.cli.parameters import AsJson, SessionId
from perdure.errors import InvalidInput


def export(
    session: SessionId,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a session as one JSON document, piece by piece. To a file, --json says how much was written."""
    size = asyncio.run(_export(session, output))
    if output is None:
        return
    if as_json:
        put_json({"session": session, "file": str(output), "bytes": size})
    else:
        say(f"{size} bytes written to {output}")


async def _export(session: str, output: Path | None) -> int:
    from perdure.runtime.session_document import document_pieces

    async with open_store() as store:
        pieces = document_pieces(store.database, store.key(session))
        first = await anext(pieces)  # before the file is touched: there may be no such session
        size = 0
        try:
            file = sys.stdout.buffer if output is None else output.open("wb")
        except OSError as error:
            raise InvalidInput(f"{output} cannot be written: {error.strerror}") from error
        try:
            size += file.write(first)
            async for piece in pieces:
                size += file.write(piece)
            file.flush()
        except BrokenPipeError:
            raise ReaderGone from None
        finally:
            if output is not None:
                file.close()
    return size


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A SessionJSON; - for stdin.")],
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Who goes on with it.")],
    as_json: AsJson = False,
) -> None:
    """Store a session from a file, whole or not at all; its ids stay what they are."""
    text = read_document(file)
    session = asyncio.run(_import(text, agent))
    if as_json:
        put_json({"session": session, "agent": agent})
    else:
        put(f"{session}\n")


def read_document(file: Path) -> str:
    """The text of a file, or of stdin for `-`.

    Raises:
        InvalidInput: it cannot be read, or is no UTF-8.
    """
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}") from error


async def _import(text: str, agent: str) -> str:
    async with open_sessions() as sessions:
        return await sessions.import_session(text, agent)
