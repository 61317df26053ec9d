"""One project of a user: a folder with an app, and `perdure dev` running in it."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.terminal import Command, Forks, Terminal

# Not `tmp_path`: each start of pytest closes the folder above it to PostgreSQL's user. In memory where there is room.
MEMORY = Path("/dev/shm")
PLACE = MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 * 2**30 else None
APP = '''
import asyncio
import gc
import os
from pathlib import Path

from perdure import App, agent
from perdure.upp import client_tool, tool
from perdure.upp.providers.scripted import call, scripted
from tests.conformance.uamp_agents import planned

os.environ["PERDURE_UAMP_GATES"] = "."
TEXT = "The sum of one and two is three."


@tool(effect="none")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="once")
async def open_ticket(title: str) -> str:
    """Open a ticket; the first time the process dies before it can say so."""
    try:
        Path("opened").touch(exist_ok=False)
    except FileExistsError:
        return "T-2"
    os._exit(9)


@tool(approval="human")
def pay(amount: int) -> str:
    """Pay; a person is asked first."""
    return f"paid {amount}"


@tool(effect="none")
async def sleep() -> str:
    """Sleep for ten minutes."""
    await asyncio.sleep(600)
    return "slept"


@tool(effect="none")
def kept() -> int:
    """How many objects the garbage collector leaves alone."""
    return gc.get_freeze_count()


pick = client_tool("pick", "Have the user pick one.", {"type": "object", "properties": {"of": {"type": "string"}}})

app = App(
    agents=[
        agent(name="calc", model=scripted([call("add", a=1, b=2), *[TEXT] * 4], chunk_size=4, chunk_delay=0.03), tools=[add]),
        agent(name="slow", model=scripted([TEXT] * 9, chunk_size=4, chunk_delay=0.2)),
        agent(name="clerk", model=scripted([call("open_ticket", title="x"), "Done."]), tools=[open_ticket]),
        agent(name="payer", model=scripted([call("pay", amount=20), "Paid."]), tools=[pay]),
        agent(name="buyer", model=scripted([[call("pay", amount=1), call("pay", amount=2)], "Bought."]), tools=[pay]),
        agent(name="chooser", model=scripted([call("pick", of="colours"), "Chosen."]), tools=[pick]),
        agent(name="sleeper", model=scripted([call("sleep"), "Awake."]), tools=[sleep]),
        agent(name="keeper", model=scripted([call("kept"), "Kept."]), tools=[kept]),
        agent(name="teller", model=planned(), tools=[add]),
    ]
)
'''


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """The process that forks commands."""
    started = Forks()
    yield started
    started.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder of its own."""
    with tempfile.TemporaryDirectory(prefix="perdure-", dir=PLACE) as place:
        yield Path(place)


@pytest.fixture
def elsewhere(forks: Forks, folder: Path) -> Terminal:
    """A terminal in a folder where nothing runs."""
    return Terminal(forks, folder)


@pytest.fixture(scope="session")
def perdure(forks: Forks) -> Iterator[Terminal]:
    """A terminal in the project's folder, while `perdure dev` runs in another."""
    with tempfile.TemporaryDirectory(prefix="perdure-", dir=PLACE) as place:
        terminal = Terminal(forks, Path(place))
        server = start_dev(terminal)
        yield terminal
        server.send(signal.SIGTERM)
        assert server.wait() == 0, server.err


def start_dev(terminal: Terminal) -> Command:
    """Start `perdure dev` for the test app; return when its worker is ready."""
    (terminal.folder / "agents.py").write_text(APP, encoding="utf-8")
    server = terminal.start("dev", "agents:app")
    server.until(lambda: "worker ready" in server.err)
    return server
