"""`perdure serve` and the API of `perdure dev`, as a user has them."""

from __future__ import annotations

import json
import re
import signal
import socket

import httpx

from tests.acceptance.conftest import start_dev
from tests.acceptance.terminal import Terminal


def test_dev_serves_the_api(elsewhere: Terminal) -> None:
    """Its address is printed; a run goes over it; a second server of the folder takes another port; all end together."""
    server = start_dev(elsewhere)
    server.until(lambda: "API ready" in server.err)
    found = re.search(r"API ready: (http://\S+)", server.err)
    assert found, server.err
    body = {"agent": "calc", "input": "1+2?", "mode": "wait"}
    run = httpx.post(f"{found[1]}/runs", json=body, timeout=60).json()
    assert run["turn"]["messages"][-1]["content"][0]["text"] == "The sum of one and two is three."
    shown = json.loads(elsewhere("sessions", "show", run["session"], "--json").out)
    assert shown["runs"][0]["run"] == run["run"]
    beside = elsewhere.start("serve", "--port", "0")
    beside.until(lambda: "API ready" in beside.err)
    other = re.search(r"API ready: (http://\S+)", beside.err)
    assert other, beside.err
    assert httpx.get(f"{other[1]}/runs/{run['run']}", timeout=60).json()["turn"] == run["turn"]
    beside.send(signal.SIGTERM)
    assert beside.wait() == 0
    server.send(signal.SIGINT)
    assert server.wait() == 0
    assert "was killed" not in server.err


def test_dev_without_the_api(elsewhere: Terminal) -> None:
    """A port that is taken is said before anything starts; with --no-api none is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        (elsewhere.folder / "agents.py").write_text(
            "from perdure import App, agent\nfrom perdure.upp.providers import scripted\n"
            'app = App(agents=[agent(name="small", model=scripted(["Yes."]))])\n',
            encoding="utf-8",
        )
        elsewhere("dev", "agents:app", "--port", port, code=2).check_error("--port")
    assert not (elsewhere.folder / ".perdure").exists()
    server = elsewhere.start("dev", "agents:app", "--no-api")
    server.until(lambda: "worker ready" in server.err)
    server.send(signal.SIGINT)
    assert server.wait() == 0
    assert "API" not in server.err


def test_serve_without_servers(elsewhere: Terminal) -> None:
    """It says which ones it misses."""
    elsewhere("serve", "--port", "0", code=3).check_error("no servers are known here")


def test_an_open_server_is_for_this_machine_alone(perdure: Terminal) -> None:
    """Without a key or tokens it binds to no address that others reach."""
    perdure("serve", "--host", "0.0.0.0", "--port", "0", code=2).check_error("without authentication")
