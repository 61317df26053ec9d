"""Our own UAIP server for the checks: real Temporal and PostgreSQL, a worker and an API over TLS, each a process."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.conformance.uaip_replies import Specified
from tests.conformance.uaip_server import UaipServer
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_api_tls import Identity, make_identity

APP = "tests.conformance.uaip_store:app"


class _Processes:
    """A worker and an API, which can be killed and started again."""

    def __init__(self, stack: Stack, identity: Identity, effects: Path) -> None:
        self._stack = stack
        self._identity = identity
        self._effects = effects
        self.start()

    def start(self) -> None:
        self.worker = WorkerProcess(self._stack, APP, PERDURE_UAIP_EFFECTS=str(self._effects))
        self.api = ApiProcess(self._stack, **self._identity.settings)
        self.worker.wait_ready()
        self.api.wait_ready()

    def kill(self) -> None:
        self.worker.kill()
        self.api.kill()

    async def restart(self) -> None:
        """SIGKILL to both and to Temporal; once that is back, as its supervisor sees to, both are started again."""
        self._stack.kill("temporal")
        await asyncio.to_thread(self.kill)
        async with self._stack.reconnect():
            await asyncio.to_thread(self.start)


@contextmanager
def perdure_server(stack: Stack) -> Generator[UaipServer]:
    """A server of the workflows of `uaip_store.py`, while the context lasts."""
    identity = make_identity(stack.folder, "uaip")
    effects = stack.folder / "uaip-effects"
    effects.touch()
    processes = _Processes(stack, identity, effects)

    async def restart() -> None:
        await processes.restart()
        served.base_url = processes.api.url

    def kill_database() -> None:
        with suppress(ProcessLookupError):  # it is dead, and not yet back
            stack.kill("postgres")

    served = UaipServer(
        processes.api.url,
        Specified(),
        trust=identity.trust,
        effects=effects,
        restart=restart,
        kill_database=kill_database,
    )
    try:
        yield served
    finally:
        processes.kill()
