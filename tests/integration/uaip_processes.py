"""A worker and API processes that serve stage workflows, and what can be killed of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess, eventually


@dataclass
class StageProcesses:
    """One worker and some API processes; whoever kills one puts another in its place.

    Attributes:
        stack: the servers.
        app: the worker's.
        environment: of all of them.
        worker: the one that runs.
        apis: those that run, each in its place.
        killed: the pid that a server had when it was last killed, by its name.
    """

    stack: Stack
    app: str
    environment: dict[str, str]
    worker: WorkerProcess
    apis: list[ApiProcess]
    killed: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def urls(self) -> list[str]:
        """Where the door is; one of them may be dead."""
        return [api.url for api in self.apis]

    async def replace_worker(self, app: str | None = None, **environment: str) -> None:
        """SIGKILL unless it is dead, and another one, perhaps of another app from now on."""
        self.worker.kill()
        self.app = app or self.app
        await self._servers()
        fresh = WorkerProcess(self.stack, self.app, **{**self.environment, **environment})
        self.worker = await asyncio.to_thread(fresh.wait_ready)

    async def replace_api(self, place: int = 0, **environment: str) -> None:
        """SIGKILL unless it is dead, and another one in its place."""
        self.apis[place].kill()
        await self._servers()
        fresh = ApiProcess(self.stack, **{**self.environment, **environment})
        self.apis[place] = await asyncio.to_thread(fresh.wait_ready)

    async def kill_server(self, name: str) -> None:
        """SIGKILL to "temporal" or "postgres"; the stack brings it back. One that is not back yet is waited for."""
        await self._server(name)
        self.killed[name] = self.stack.servers.pids[name]
        self.stack.kill(name)

    async def _servers(self) -> None:
        """Return once both are there: a process that begins without one says so and ends."""
        for name in self.killed:
            await self._server(name)

    async def _server(self, name: str) -> None:
        async def is_back() -> bool:
            return self.stack.servers.pids[name] != self.killed.get(name)

        await eventually(is_back, what=f"{name} again")

    async def kill(self, victim: str) -> None:
        """Kill one kind of process: "worker", "api" (each of them, and all are replaced), "temporal" or "postgres"."""
        if victim == "worker":
            await self.replace_worker()
        elif victim == "api":
            await asyncio.gather(*(self.replace_api(place) for place in range(len(self.apis))))
        else:
            await self.kill_server(victim)


@asynccontextmanager
async def stage_processes(
    stack: Stack, app: str, *, queue: str, apis: int = 1, **environment: str
) -> AsyncGenerator[StageProcesses, None]:
    """All of them serve; they are killed at the end.

    Args:
        stack: the servers.
        app: of the worker.
        queue: the worker's own task queue.
        apis: how many API processes there are.
        environment: of all of them.
    """
    given = {"PERDURE_TASK_QUEUE": queue, **environment}
    worker = WorkerProcess(stack, app, **given)
    started = StageProcesses(stack, app, given, worker, [ApiProcess(stack, **given) for _ in range(apis)])
    try:
        for process in (started.worker, *started.apis):
            await asyncio.to_thread(process.wait_ready)
        yield started
    finally:
        for process in (started.worker, *started.apis):
            process.kill()
