"""The embedded servers: started, reused, stopped, and brought back after every kind of death."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from perdure.embedded.account import account_for, let_pass, running_as
from perdure.embedded.folder import Folder
from perdure.embedded.postgres import Postgres
from perdure.embedded.process import find
from perdure.embedded.servers import Addresses, EmbeddedServers, find_running
from perdure.embedded.temporal import RETENTION, Temporal
from perdure.errors import EmbeddedError

ROOT = Path(__file__).parents[2]
# In memory where there is room: a disk makes a new cluster three times slower. Not `tmp_path`: each start of pytest, also
# of another one at the same time, closes the folder above it to other users.
MEMORY = Path("/dev/shm")
PLACE = MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 * 2**30 else None
SUPERVISOR = """
import asyncio, signal, sys
from pathlib import Path
from perdure.embedded.servers import EmbeddedServers

async def main() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    async with EmbeddedServers(Path(sys.argv[1])) as servers:
        print(servers.addresses.temporal, flush=True)
        await servers.supervise()

try:
    asyncio.run(main())
except asyncio.CancelledError:
    pass
"""
Make = Callable[..., EmbeddedServers]


@pytest.fixture(scope="session")
def initialised() -> Iterator[Path]:
    """A folder whose servers once ran, were used and were stopped cleanly."""

    async def use(folder: Path) -> None:
        async with EmbeddedServers(folder) as servers:
            await leave_traces(servers.addresses)

    with tempfile.TemporaryDirectory(prefix="perdure-", dir=PLACE) as folder:
        asyncio.run(use(Path(folder)))
        yield Path(folder)


@pytest.fixture
def empty() -> Iterator[Path]:
    """A folder that only its owner may enter."""
    with tempfile.TemporaryDirectory(prefix="perdure-", dir=PLACE) as folder:
        yield Path(folder)


@pytest.fixture
def project(initialised: Path, empty: Path) -> Path:
    """A copy of `initialised`, which saves the second that initdb takes."""
    return copied(initialised, empty)


def copied(initialised: Path, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", initialised / ".perdure", folder], check=True)
    return folder


@pytest.fixture
async def make() -> AsyncGenerator[Make]:
    """Makes `EmbeddedServers` and ends at once what they have left: a clean stop takes a second."""
    made: list[EmbeddedServers] = []

    def new(folder: Path, *, temporal_port: int | None = None, postgres_port: int | None = None) -> EmbeddedServers:
        made.append(EmbeddedServers(folder, temporal_port=temporal_port, postgres_port=postgres_port))
        return made[-1]

    yield new
    for servers in made:
        for name, pid in servers.pids.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT if name == "postgres" else signal.SIGKILL)
        await servers.stop()


@contextlib.contextmanager
def supervisor(folder: Path) -> Generator[subprocess.Popen[str]]:
    """Another process that runs the servers of `folder`, which are up when the block begins."""
    command = [sys.executable, "-c", SUPERVISOR, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("127.0.0.1:")
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def postgres_by_hand(folder: Path) -> Generator[subprocess.Popen[bytes]]:
    """A PostgreSQL on the data of `folder` that was not started as we do it."""
    data = folder / ".perdure/postgres"
    program = Postgres(Folder.of(folder), None).arguments(0)[0]
    account = account_for(data)
    if account:
        let_pass(data, account)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [program, "-D", data, "-c", f"port={port}", "-c", "unix_socket_directories="]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=data, **running_as(account)) as process:
        yield process
        process.send_signal(signal.SIGINT)


async def until(condition: Callable[[], bool], within_s: float = 90) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


async def query(addresses: Addresses, statement: str) -> object:
    connection = await asyncpg.connect(addresses.database_url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def leave_traces(addresses: Addresses) -> None:
    """Leaves a row and an open workflow."""
    await query(addresses, "create table kept as select 7 as value")
    client = await Client.connect(addresses.temporal)
    await client.start_workflow("never_run", id="kept", task_queue="nobody")


async def traces_are_there(addresses: Addresses) -> bool:
    client = await Client.connect(addresses.temporal)
    found = await client.get_workflow_handle("kept").describe()
    return await query(addresses, "select value from kept") == 7 and found.workflow_type == "never_run"


def running(folder: Path) -> list[str]:
    """The names of the servers that run on `folder`, by the process table."""
    place = Folder.of(folder)
    return [kind.name for kind in (Temporal, Postgres) if find(kind.kind, place.data(kind.name))]


async def test_data_outlive_a_stop(initialised: Path, make: Make) -> None:
    """What was stored before a clean stop is there after the next start, on the same ports."""
    before = json.loads((initialised / ".perdure/servers.json").read_text())
    addresses = await make(initialised).start()
    assert await traces_are_there(addresses)
    assert addresses == Addresses(before["temporal"]["address"], before["postgres"]["url"])


async def test_servers_are_set_up_as_promised(project: Path, make: Make) -> None:
    """History is kept for 30 days, text is UTF-8, every write is synced, a password is needed, and nobody may read it."""
    addresses = await make(project).start()
    client = await Client.connect(addresses.temporal)
    namespace = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
    assert namespace.config.workflow_execution_retention_ttl.ToTimedelta() == RETENTION == timedelta(days=30)
    assert await query(addresses, "show server_encoding") == "UTF8"
    assert await query(addresses, "show fsync") == "on"
    assert await query(addresses, "select lower('ÄÖ')") == "äö"
    assert await query(addresses, "show server_version_num") >= "180000"  # type: ignore[operator]
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(addresses.database_url.replace("perdure:", "perdure:x"))
    assert stat.S_IMODE((project / ".perdure/servers.json").stat().st_mode) == 0o600


async def test_a_second_object_reuses_and_does_not_stop(project: Path, make: Make) -> None:
    """Who comes second gets the same servers at once, and its stop leaves them to the first."""
    first, second = make(project), make(project)
    await first.start()
    assert await second.start() == first.addresses
    assert second.pids == first.pids
    await second.stop()
    assert find_running(project) == first.addresses


async def test_running_servers_are_found_from_below(project: Path, make: Make) -> None:
    """As git does, a search begins in a folder and goes up."""
    addresses = await make(project).start()
    below = project / "src/deep"
    below.mkdir(parents=True)
    assert find_running(below) == addresses


async def test_two_folders_side_by_side(initialised: Path, empty: Path, make: Make) -> None:
    """Two folders that start at the same moment, both remembering the same ports, get servers of their own."""
    both = [make(copied(initialised, empty / name)) for name in ("one", "two")]
    one, two = await asyncio.gather(*(servers.start() for servers in both))
    assert one.temporal != two.temporal
    assert one.database_url != two.database_url
    assert await query(one, "create table mine (id int)") is None
    assert await query(two, "select to_regclass('mine')") is None


async def test_two_starts_at_once(project: Path, make: Make) -> None:
    """Of two starts in one folder one starts the servers and the other takes them."""
    first, second = make(project), make(project)
    one, two = await asyncio.gather(first.start(), second.start())
    assert one == two
    assert first.pids == second.pids


@pytest.mark.parametrize("name", ["temporal", "postgres"])
async def test_a_killed_server_comes_back(project: Path, make: Make, name: str) -> None:
    """A server that was killed is started again on its port, with its data."""
    servers = make(project)
    before = await servers.start()
    victim = servers.pids[name]
    watching = asyncio.create_task(servers.supervise())
    os.kill(victim, signal.SIGKILL)
    await until(lambda: servers.pids[name] != victim)
    assert await traces_are_there(servers.addresses)
    assert servers.addresses == before == find_running(project)
    watching.cancel()
    await asyncio.wait([watching])


async def test_a_killed_supervisor_leaves_servers_that_the_next_one_owns(project: Path) -> None:
    """After SIGKILL of the process that started them the servers are reused, and then really stopped."""
    with supervisor(project) as process:
        left = find_running(project)
        process.kill()
    servers = EmbeddedServers(project)
    assert await servers.start() == left
    assert await traces_are_there(servers.addresses)
    await servers.stop()
    assert running(project) == []


async def test_a_second_supervisor_takes_over(project: Path, make: Make) -> None:
    """If the owner is killed and then a server, a process that only reused them brings it back, and owns both."""
    servers = make(project)
    with supervisor(project) as process:
        await servers.start()
        victim = servers.pids["postgres"]
        watching = asyncio.create_task(servers.supervise())
        process.kill()
    os.kill(victim, signal.SIGKILL)
    await until(lambda: servers.pids["postgres"] != victim)
    watching.cancel()
    await asyncio.wait([watching])
    await servers.stop()
    assert running(project) == []


async def test_sigterm_stops_both_servers(project: Path) -> None:
    """A supervisor that turns SIGTERM into a cancellation ends with nothing left, PostgreSQL shut down cleanly."""
    with supervisor(project) as process:
        process.terminate()
        await until(lambda: process.poll() is not None)
        assert process.returncode == 0
    assert running(project) == []
    assert not (project / ".perdure/postgres/postmaster.pid").exists()
    assert "database system is shut down" in (project / ".perdure/logs/postgres.log").read_text()


async def test_supervision_gives_up(project: Path) -> None:
    """A server that cannot be started again ends the supervision with the reason, and nothing is left running."""
    servers = EmbeddedServers(project)
    await servers.start()
    watching = asyncio.create_task(servers.supervise())
    (project / ".perdure/postgres/postgresql.conf").write_text("no_such_setting = 1\n")
    os.kill(servers.pids["postgres"], signal.SIGKILL)
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        await asyncio.wait_for(watching, 90)
    await servers.stop()
    assert running(project) == []


async def test_a_stop_ends_both_for_good(project: Path) -> None:
    """After a stop no process is left, a supervision that was not cancelled brings nothing back, and others may start."""
    servers, others = EmbeddedServers(project), EmbeddedServers(project)
    await servers.start()
    assert running(project) == ["temporal", "postgres"]
    watching = asyncio.create_task(servers.supervise())
    os.kill(servers.pids["postgres"], signal.SIGKILL)
    await servers.stop()
    assert running(project) == []
    assert find_running(project) is None
    await servers.stop()
    await others.start()
    await others.stop()
    assert running(project) == []
    watching.cancel()
    await asyncio.wait([watching])


async def test_a_cancelled_start_leaves_nothing(project: Path) -> None:
    """A start that is cancelled half way stops what it has started, and the next start works."""
    starting = asyncio.create_task(EmbeddedServers(project).start())
    await until(lambda: bool(running(project)))
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    assert running(project) == []


@pytest.mark.parametrize("name", ["long " + "x" * 130, "two words, ünïcödé 🦀, #1?&%41'\""])
async def test_any_folder_will_do(initialised: Path, empty: Path, make: Make, name: str) -> None:
    """Long paths, spaces, quotes and every script are no hindrance."""
    assert await traces_are_there(await make(copied(initialised, empty / name)).start())


async def test_a_stale_pid_file_is_no_hindrance(project: Path, make: Make) -> None:
    """A postmaster.pid that names a live process of something else is removed, as PostgreSQL itself would not do."""
    data = project / ".perdure/postgres"
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n1700000000\n5432\n\nlocalhost\n\nready\n")
    assert await traces_are_there(await make(project).start())


async def test_a_postgres_that_somebody_else_runs_is_let_be(project: Path) -> None:
    """A live PostgreSQL on the data, started by hand, is neither pushed aside nor joined."""
    pid_file = project / ".perdure/postgres/postmaster.pid"
    with postgres_by_hand(project) as by_hand:
        await until(pid_file.exists)
        with pytest.raises(EmbeddedError, match=f"already runs on .* as process {by_hand.pid}"):
            await EmbeddedServers(project).start()
        assert pid_file.exists()
        assert by_hand.poll() is None


async def test_lost_addresses_are_made_anew(project: Path, make: Make) -> None:
    """Without servers.json the data are still served: with a new password, also if the servers still run."""
    first = make(project)
    before = await first.start()
    (project / ".perdure/servers.json").unlink()
    assert find_running(project) is None
    after = await first.start()
    assert await traces_are_there(after)
    assert after.temporal == before.temporal
    assert after.database_url != before.database_url


async def test_a_half_made_folder_is_made_again(empty: Path, make: Make) -> None:
    """A first start that was killed in the middle leaves a mark, and its remains are not used."""
    place = empty / ".perdure"
    for name in ("temporal", "postgres"):
        (place / name).mkdir(parents=True)
        (place / name / "rest").write_text("half")
        (place / f"{name}.unfinished").touch()
    addresses = await make(empty).start()
    await leave_traces(addresses)
    assert not list(place.glob("*.unfinished"))
    assert not list(place.glob("*/rest"))


async def test_a_log_that_grew_is_put_aside(project: Path, make: Make) -> None:
    """A start moves a log of more than 10 MB away."""
    log = project / ".perdure/logs/postgres.log"
    with log.open("wb") as file:
        file.truncate(11 * 2**20)
    await make(project).start()
    assert log.stat().st_size < 2**20
    assert log.with_suffix(".log.1").stat().st_size == 11 * 2**20
