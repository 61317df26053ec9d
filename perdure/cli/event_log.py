"""A session's event log on stdout: as it stands, or as it grows."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from perdure.cli.connection import Store, open_store
from perdure.cli.output import ReaderGone, in_short, is_reader_gone, put, put_json, put_json_line, visible
from perdure.runtime.event_stream import EventStream
from perdure.runtime.shown import iso
from perdure.store.events import Event, read_events
from perdure.store.sessions import read_session
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONValue

_PAGE = 1000
_LOOK_S = 0.5


async def show(session: str, after: int, *, as_json: bool) -> None:
    """Show the events numbered above `after` that there are now.

    Raises:
        UnknownSession: there is no such session.
    """
    async with open_store() as store:
        key = store.key(session)
        last = (await read_session(store.database, key)).last_seq
        found: list[JSONValue] = []
        while after < last and (page := await read_events(store.database, key, after=after, limit=_PAGE)):
            after = page[-1].seq
            if as_json:
                found += [event.to_json() for event in page]
            else:
                put("".join(_line(event) for event in page))
    if as_json:
        put_json({"events": found})


async def follow(session: str, after: int, *, as_json: bool) -> None:
    """Show the events numbered above `after`, and each new one as it comes, until cancelled.

    Raises:
        UnknownSession: there is no such session.
        ReaderGone: nobody reads it any more.
    """
    async with open_store() as store:
        key = store.key(session)
        await read_session(store.database, key)
        showing = asyncio.create_task(_show_as_they_come(store, key, after, as_json=as_json))
        try:
            while not showing.done():
                await asyncio.wait([showing], timeout=_LOOK_S)
                if is_reader_gone():
                    raise ReaderGone
            showing.result()
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)


async def _show_as_they_come(store: Store, key: SessionKey, after: int, *, as_json: bool) -> None:
    stream = EventStream(store.database)
    try:
        async with aclosing(stream.follow(key, after=after)) as coming:
            async for event in coming:
                if as_json:
                    put_json_line(event.to_json())
                else:
                    put(_line(event))
    finally:
        await stream.close()


def _line(event: Event) -> str:
    step = "" if event.step is None else event.step
    number = event.seq if event.folded_from is None else f"{event.folded_from}-{event.seq}"
    return visible(f"{number:>6}  {iso(event.at)}  {step:>4}  {event.type:<21} {in_short(event.data, 160)}") + "\n"
