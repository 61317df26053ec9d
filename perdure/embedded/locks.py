"""File locks that the kernel lets go of when their holder dies, however it dies.

Three kinds are used. `lock` is held while servers are started or stopped. `owner` is held by the
process that will stop the servers, for as long as it lives. `<server>.lock` is inherited by the
server itself and all its children, so it tells for sure whether anything still works on the data:
neither a reused pid, nor a zombie, nor another pid namespace can deceive it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from perdure.errors import EmbeddedError

_POLL_S = 0.02


def try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock on `path`, or None if another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@asynccontextmanager
async def locked(path: Path, *, within: timedelta, otherwise: str) -> AsyncGenerator[int]:
    """Hold the lock on `path`; the descriptor may be handed on to a child.

    Args:
        path: the lock file; made if missing.
        within: how long to wait for another holder.
        otherwise: what the error says if that was not long enough.

    Raises:
        EmbeddedError: the lock stayed taken.
    """
    deadline = time.monotonic() + within.total_seconds()
    while (descriptor := try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise EmbeddedError(otherwise)
        await asyncio.sleep(_POLL_S)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
