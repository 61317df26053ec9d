"""Bringing one server up: adopted if it already runs, else spawned and waited for until it does its work."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from perdure.embedded import locks, ports
from perdure.embedded.folder import Folder, require_space
from perdure.embedded.process import Launch, ServerProcess, end, find, spawn
from perdure.embedded.server import Server, StillStarting
from perdure.errors import EmbeddedError

GRACE = timedelta(seconds=10)
_SILENT_S = 60  # a server that says nothing for this long does not work
_DATA_FREE = timedelta(seconds=15)  # PostgreSQL's children outlive it for a moment
_POLL_S = 0.03
_PORTS_TRIED = 200
_TRIES_A_PORT = 3  # Temporal draws inner ports at random, and may lose those while the named one stays free
_PROBE_S = 10
_TAIL_LINES = 8
T = TypeVar("T")


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    Attributes:
        fixed_port: the port that the user named, if any.
        last_port: the port that the server had before, if any.
        may_stop: whether a running server that does not fit may be stopped; not if another process needs it.
    """

    fixed_port: int | None
    last_port: int | None
    may_stop: bool


class _PortTakenError(Exception):
    """Another program took one of the server's ports between our look and its start."""


async def bring_up(server: Server, folder: Folder, wish: Wish) -> ServerProcess:
    """Return the server's process, ready to be used. The start lock must be held.

    Raises:
        EmbeddedError: it cannot be had; the message says why and what to do.
    """
    running = await in_thread(lambda: find(server.kind, server.data))
    if running is not None:
        fits = server.can_adopt() and wish.fixed_port in (None, running.port)
        if fits and await _is_ready(server, running):
            await in_thread(server.started)
            return running
        if not wish.may_stop:
            raise EmbeddedError(
                f"The {server.name} of {folder.path} (process {running.pid}, port {running.port}) belongs to another "
                "process and cannot be used as asked for. Stop that process, or ask for the same port."
            )
        await in_thread(lambda: end([running], grace=GRACE))
    in_use = (
        f"Something still works on {server.data} that cannot be seen from here, perhaps in another container. "
        "Stop it and start again."
    )
    async with locks.locked(folder.data_lock(server.name), within=_DATA_FREE, otherwise=in_use) as lock:
        await in_thread(lambda: require_space(folder.path))
        await in_thread(lambda: server.prepare(lock))
        process = await _start_on_free_port(server, folder, wish, lock)
    await in_thread(server.started)
    return process


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread, to its end even if the caller is cancelled, who holds the locks that it needs."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and task.exception() is None:
        raise asyncio.CancelledError
    return task.result()


async def _start_on_free_port(server: Server, folder: Folder, wish: Wish, lock: int) -> ServerProcess:
    for port in _candidates(server, wish):
        for _ in range(_TRIES_A_PORT):
            with ports.reserved(port) as is_free:
                if not is_free:
                    break
                try:
                    return await _start(server, folder, port, lock)
                except _PortTakenError:
                    continue
    if wish.fixed_port is not None:
        raise EmbeddedError(
            f"Port {wish.fixed_port} is taken by another program, so {server.name} cannot listen on it. "
            f"Stop that program (`ss -ltnp 'sport = :{wish.fixed_port}'` shows it), or name no port to get a free one."
        )
    raise EmbeddedError(f"No free port for {server.name} in {server.ports}; {_PORTS_TRIED} were tried.")


def _candidates(server: Server, wish: Wish) -> Iterator[int]:
    if wish.fixed_port is not None:
        yield wish.fixed_port
        return
    if wish.last_port is not None:
        yield wish.last_port
    # Each folder begins at a place of its own, so that none takes the port of another one's server that is just away.
    place = int.from_bytes(hashlib.sha256(os.fsencode(server.data)).digest()[:4], "big")
    yield from (server.ports[(place + step) % len(server.ports)] for step in range(_PORTS_TRIED))


async def _start(server: Server, folder: Folder, port: int, lock: int) -> ServerProcess:
    launch = Launch(server.kind, server.arguments(port), server.data, server.account, port)
    log = folder.open_log(server.name)
    try:
        seen = os.fstat(log).st_size
        process = await in_thread(lambda: spawn(launch, log=log, lock=lock))
    finally:
        os.close(log)
    try:
        if await _is_ready(server, process):
            return process
        status = process.exit_status()
    except BaseException:
        await in_thread(lambda: end([process], grace=GRACE))
        raise
    await in_thread(lambda: end([process], grace=GRACE))
    tail = await in_thread(lambda: _tail(folder.log(server.name), seen))
    if "address already in use" in tail.lower():
        raise _PortTakenError
    raise EmbeddedError(_explain(server.name, status, tail, folder.log(server.name)))


async def _is_ready(server: Server, process: ServerProcess) -> bool:
    """Wait until the server does its work; False if it ended or is silent for too long."""
    deadline = time.monotonic() + _SILENT_S
    while time.monotonic() < deadline:
        try:
            async with asyncio.timeout(_PROBE_S):
                if await server.probe(process.port):
                    return process.is_alive()
        except StillStarting:
            deadline = time.monotonic() + _SILENT_S
        except TimeoutError:
            pass  # it took the connection and said nothing; the deadline decides
        if not process.is_alive():
            return False
        await asyncio.sleep(_POLL_S)
    return False


def _explain(name: str, status: int | None, tail: str, log: Path) -> str:
    """Return what a person needs to know of a failed start: what happened, the server's own words, what to do."""
    happened = f"did not answer for {_SILENT_S} s" if status is None else f"ended with status {status}"
    words = tail.lower()
    if "no space left on device" in words or "disk is full" in words:
        remedy = "The disk is full: free some space and start again."
    elif "permission denied" in words:
        remedy = "It may not use one of its files: see who owns them."
    else:
        remedy = "The log says more."
    lines = "".join(f"\n    {line[:300]}" for line in tail.splitlines()[-_TAIL_LINES:]) or "\n    (nothing)"
    return f"{name} {happened}. {remedy} Its last words in {log}:{lines}"


def _tail(log: Path, seen: int) -> str:
    """Return what was written to the log since it had `seen` bytes, its last 16 KB at most."""
    with log.open("rb") as file:
        file.seek(max(seen, log.stat().st_size - 16_384))
        return file.read().decode("utf-8", "replace").strip()
