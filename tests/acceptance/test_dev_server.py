"""`perdure dev`: started, shared, killed, taken over and stopped, with nothing left running."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.acceptance.conftest import start_dev
from tests.acceptance.terminal import Terminal

SMALL_APP = """
from perdure import App, agent
from perdure.upp.providers import scripted

app = App(agents=[agent(name="small", model=scripted(["Yes."]))])
"""


def processes_in(folder: Path) -> list[str]:
    """The command lines of all live processes that work in a folder or below it, but for zombies."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            place = (entry / "cwd").resolve(strict=True)
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdecimal() and place.is_relative_to(folder) and command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def wait_until_gone(folder: Path, word: str = "") -> None:
    end = time.monotonic() + 90
    while any(word in line for line in processes_in(folder)):
        assert time.monotonic() < end, processes_in(folder)
        time.sleep(0.05)


def test_a_server_from_start_to_end(elsewhere: Terminal) -> None:
    """SIGKILL takes the worker along; the next one goes on with the servers; two share them; Ctrl-C leaves nothing."""
    first = start_dev(elsewhere)
    assert "this is for one machine" in first.err
    os.kill(first.pid, signal.SIGKILL)
    wait_until_gone(elsewhere.folder, "worker agents:app")
    assert processes_in(elsewhere.folder), "the servers were to survive"
    second = start_dev(elsewhere)
    third = start_dev(elsewhere)
    assert "they were running already" in second.err
    assert "they were running already" in third.err
    third.send(signal.SIGTERM)
    assert third.wait() == 0
    assert elsewhere("run", "calc", "1+2?").out == "The sum of one and two is three.\n"
    second.send(signal.SIGINT)
    assert second.wait() == 0
    assert second.err.rstrip().endswith("perdure dev: stopped")
    wait_until_gone(elsewhere.folder)
    record = json.loads((elsewhere.folder / ".perdure/servers.json").read_text())
    password = urlsplit(str(record["postgres"]["url"])).password
    assert password
    assert password not in first.err + second.err + third.err


def test_an_app_that_cannot_be_loaded_starts_nothing(elsewhere: Terminal) -> None:
    """A wrong app is said before any server is started."""
    (elsewhere.folder / "empty.py").write_text("from perdure import App\napp = App(agents=[])\n", encoding="utf-8")
    elsewhere("dev", "empty:app", code=2).check_error("empty:app is empty")
    elsewhere("dev", "empty:nothing", code=2).check_error("'nothing'")
    elsewhere("dev", "agents:app", code=2).check_error("no module 'agents'")
    assert not (elsewhere.folder / ".perdure").exists()


def test_a_stop_during_the_start_leaves_nothing(elsewhere: Terminal) -> None:
    """Ctrl-C before the servers are up ends cleanly."""
    (elsewhere.folder / "agents.py").write_text(SMALL_APP, encoding="utf-8")
    server = elsewhere.start("dev", "agents:app")
    server.until(lambda: "starting Temporal" in server.err)
    server.send(signal.SIGINT)
    assert server.wait() == 0
    wait_until_gone(elsewhere.folder)
