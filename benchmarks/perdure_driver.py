"""Perdure as a contestant: `perdure worker` as its users run it, and a program that submits with `perdure.connect`.

Options: those of `perdure_app`; {"workers": n} worker processes, 1 by default; {"environment": {...}} of those.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from benchmarks import line
from benchmarks.line import Done, Ready
from benchmarks.perdure_app import AGENT
from benchmarks.work import check_answer, prompt
from perdure import connect
from perdure.migrations.migrate import migrate
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database
from perdure.uap.session_key import SessionKey

T = TypeVar("T")
_TARGET = "benchmarks.perdure_app:app"
_READY_S = 240
_END_S = 30
_SETTLED_S = 300
_LOOK_S = 0.5
_UNFOLDED = "select count(*) from perdure.runs where session_id = any($1::text[]) and not folded"
_KNOWN = {"short_tools", "short_model", "effect", "workers", "environment"}


class PerdureDriver(line.Driver):
    """Perdure's driver."""

    def __init__(self) -> None:
        """Read what the harness gives."""
        self._given = line.given()
        self._workers: list[asyncio.subprocess.Process] = []
        self._logs: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._sessions: Sessions | None = None

    async def start(self) -> Ready:
        """See `Driver.start`. The deltas of a run are folded as soon as it has ended, so that it is measured too."""
        options = self._given.options
        if unknown := set(options) - _KNOWN:
            raise ValueError(f"Perdure has no option {', '.join(sorted(unknown))}")
        await self._migrate()
        for _ in range(options.get("workers", 1)):
            await self._start_worker()
        self._sessions = await self._stack.enter_async_context(
            connect(temporal_address=self._given.temporal, database_url=self._given.database_url)
        )
        versions = {name: version(name) for name in ("perdure", "temporalio", "asyncpg")}
        return Ready({"worker": [worker.pid for worker in self._workers]}, versions)

    async def runs(self, work: str, runs: int, at_once: int) -> Done:
        """See `Driver.runs`. Each run is a session of its own."""

        async def one(number: int) -> str:
            return await self._turn(work, 0, None)

        return await self._alive(self._settled(line.closed_loop(one, runs, at_once)))

    async def turns(self, work: str, turns: int) -> Done:
        """See `Driver.turns`."""
        session: str | None = None

        async def one(turn: int) -> str:
            nonlocal session
            session = await self._turn(work, turn, session)
            return session

        return await self._alive(self._settled(line.one_by_one(one, turns)))

    async def stored(self, ids: Sequence[str]) -> Mapping[str, float]:
        """See `Driver.stored`."""
        events = size = 0
        for session in ids:
            for run_id in await self._executions(session):
                handle = self._connected.client.get_workflow_handle(self._workflow(session), run_id=run_id)
                async for event in handle.fetch_history_events():
                    events += 1
                    size += event.ByteSize()
        return {"events": events / len(ids), "history_bytes": size / len(ids)}

    async def stop(self) -> None:
        """See `Driver.stop`. Workers get the signal that a service manager sends."""
        await self._stack.aclose()
        for worker in self._workers:
            if worker.returncode is None:
                worker.terminate()
        async with asyncio.timeout(_END_S):
            await asyncio.gather(*(worker.wait() for worker in self._workers), *self._logs)

    @property
    def _connected(self) -> Sessions:
        assert self._sessions is not None, "started"
        return self._sessions

    def _workflow(self, session: str) -> str:
        return SessionKey(self._connected.tenant, session).workflow_id

    async def _turn(self, name: str, turn: int, session: str | None) -> str:
        handle = await self._connected.submit(AGENT, prompt(name, turn), session=session)
        check_answer(name, (await handle.result()).response.text)
        return handle.session

    async def _settled(self, doing: Coroutine[Any, Any, Done]) -> Done:
        """Do it, and wait until all of its runs are folded."""
        done = await doing
        end = time.monotonic() + _SETTLED_S
        while await self._unfolded(done.ids):
            if time.monotonic() > end:
                raise TimeoutError(f"runs were not folded within {_SETTLED_S} s")
            await asyncio.sleep(_LOOK_S)
        return done

    async def _unfolded(self, sessions: Sequence[str]) -> int:
        async with self._connected.database.driver() as connection:
            return await connection.fetchval(_UNFOLDED, list(sessions))

    async def _alive(self, doing: Coroutine[Any, Any, T]) -> T:
        """Do it as long as the workers live: a run without a worker would be waited for without end."""
        task = asyncio.create_task(doing)
        ends = [asyncio.create_task(worker.wait()) for worker in self._workers]
        await asyncio.wait([task, *ends], return_when=asyncio.FIRST_COMPLETED)
        dead = [end.result() for end in ends if end.done()]
        for waiting in (*ends, *([task] if dead else [])):
            waiting.cancel()
        if dead:
            raise line.ProcessEnded(f"a worker ended with {dead[0]}")
        return await task

    async def _executions(self, session: str) -> list[str]:
        """The run ids of all executions of a session's workflow."""
        query = f"WorkflowId = '{self._workflow(session)}'"
        return [found.run_id async for found in self._connected.client.list_workflows(query)]

    async def _migrate(self) -> None:
        database = Database(self._given.database_url)
        try:
            await migrate(database)
        finally:
            await database.close()

    async def _start_worker(self) -> None:
        worker = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("perdure")), "worker", _TARGET, env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self._workers.append(worker)
        assert worker.stderr is not None, "a pipe"
        async with asyncio.timeout(_READY_S):
            while b"worker ready" not in (said := await worker.stderr.readline()):
                sys.stderr.buffer.write(said)
                if not said:
                    raise line.ProcessEnded(f"the worker ended with {await worker.wait()}")
        self._logs.append(asyncio.create_task(_pass_on(worker.stderr)))

    def _environment(self) -> dict[str, str]:
        """A worker's: its servers, a task queue that no other contestant's worker looks at, and the options'."""
        return {
            **os.environ,
            "PERDURE_TEMPORAL_ADDRESS": self._given.temporal,
            "PERDURE_DATABASE_URL": self._given.database_url,
            "PERDURE_TASK_QUEUE": urlsplit(self._given.database_url).path.strip("/"),
            "PERDURE_FOLD_AFTER": "0",
            **self._given.options.get("environment", {}),
        }


async def _pass_on(said: asyncio.StreamReader) -> None:
    """A worker's log goes to ours, so that its pipe never fills."""
    while written := await said.readline():
        sys.stderr.buffer.write(written)
        sys.stderr.buffer.flush()


if __name__ == "__main__":
    line.serve(PerdureDriver())
