"""The driver of every contestant that is a workflow on Temporal: the floor and the Temporal peers.

Each has a worker module and two workflows whose results are plain texts: a run takes a prompt and returns its answer; a
session takes prompts by the update `turn`, each answered with a text, until the signal `close`. Of `benchmarks` this
imports only what needs no more than the standard library and `temporalio`, for the peers run it in an environment of
their own.
"""

from __future__ import annotations

import asyncio
import uuid
from asyncio.subprocess import Process
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version

from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError

from benchmarks.histories import Execution, executions_of
from benchmarks.line import Done, Given, Ready, closed_loop, one_by_one
from benchmarks.temporal_worker import TASK_QUEUE_VARIABLE
from benchmarks.work import WrongRun, check_answer, prompt
from benchmarks.worker_process import end_workers, start_workers, while_alive

_READ_AT_ONCE = 4


@dataclass(frozen=True)
class Contestant:
    """What the driver must know of a contestant.

    Attributes:
        name: the first part of its workflows' ids.
        worker: the module of its worker process; it ends in `temporal_worker.serve_worker`.
        workers: processes.
        packages: whose versions it tells.
        arguments: that its workflows take after the prompt; a session takes them first.
    """

    name: str
    worker: str
    workers: int
    packages: Sequence[str]
    arguments: Sequence[object] = field(default_factory=tuple[object])


class TemporalDriver:
    """See `line.Driver`."""

    def __init__(self, contestant: Contestant, given: Given) -> None:
        """Nothing is started yet."""
        self._contestant = contestant
        self._given = given
        self._task_queue = f"bench-{contestant.name}-{uuid.uuid4()}"
        self._workers: list[Process] = []

    async def start(self) -> Ready:
        contestant = self._contestant
        self._client = await Client.connect(self._given.temporal)
        environment = {TASK_QUEUE_VARIABLE: self._task_queue}
        self._workers = await start_workers(contestant.worker, contestant.workers, environment)
        versions = {package: version(package) for package in contestant.packages}
        return Ready({"worker": [worker.pid for worker in self._workers]}, versions)

    async def runs(self, work: str, runs: int, at_once: int) -> Done:
        async def one(_number: int) -> str:
            workflow_id = self._new_id()
            with _explained():
                answer = await self._client.execute_workflow(
                    "Run", args=[prompt(work), *self._contestant.arguments], id=workflow_id,
                    task_queue=self._task_queue, result_type=str,
                )  # fmt: skip
            check_answer(work, answer)
            return workflow_id

        return await while_alive(self._workers, closed_loop(one, runs, at_once))

    async def turns(self, work: str, turns: int) -> Done:
        workflow_id = self._new_id()
        await self._client.start_workflow(
            "Session", args=[*self._contestant.arguments, None], id=workflow_id, task_queue=self._task_queue
        )
        session = self._client.get_workflow_handle(workflow_id)  # of whichever execution is the last

        async def one(turn: int) -> str:
            with _explained():
                answer: object = await session.execute_update(  # pyright: ignore[reportUnknownMemberType] - its overloads
                    "turn", prompt(work, turn), result_type=str
                )
            check_answer(work, answer)
            return workflow_id

        done = await while_alive(self._workers, one_by_one(one, turns))
        await session.signal("close")
        await session.result()
        return done

    async def stored(self, ids: Sequence[str]) -> Mapping[str, float]:
        places = asyncio.Semaphore(_READ_AT_ONCE)

        async def read(workflow_id: str) -> tuple[int, int]:
            async with places:
                return _sizes(await executions_of(self._client, workflow_id))

        sizes = await asyncio.gather(*map(read, ids))
        return {
            "history_bytes": sum(size for size, _ in sizes) / len(sizes),
            "events": sum(events for _, events in sizes) / len(sizes),
        }

    async def stop(self) -> None:
        await end_workers(self._workers)

    def _new_id(self) -> str:
        return f"{self._contestant.name}-{uuid.uuid4()}"


def _sizes(executions: Sequence[Execution]) -> tuple[int, int]:
    """Bytes and events of a workflow's executions together."""
    return sum(each.size_bytes for each in executions), sum(len(each.events) for each in executions)


@contextmanager
def _explained() -> Generator[None, None, None]:
    """A failure says why, which Temporal tells as the cause of the cause of its error."""
    try:
        yield
    except (WorkflowFailureError, WorkflowUpdateFailedError) as failure:
        cause: BaseException = failure
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise WrongRun(f"{failure}: {cause}") from failure
