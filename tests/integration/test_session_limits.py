"""What all runs of a session may use together, over HTTP and by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from perdure.cli import exits
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.stack import ROOT, Stack, WorkerProcess

pytestmark = pytest.mark.usefixtures("steady_worker")


@pytest.fixture(scope="module")
def api(stack: Stack, steady_worker: WorkerProcess) -> Iterator[ApiProcess]:
    process = ApiProcess(stack).wait_ready()
    yield process
    process.kill()


def run(steps: int) -> dict[str, Any]:
    """A run of the test's worker, which is waited for."""
    text = json.dumps({"name": uuid.uuid4().hex, "steps": steps, "tool": "none"})
    return {"input": text, "mode": "wait", "wait_s": 60}


async def open_session(client: httpx.AsyncClient, **limits: Any) -> str:
    return checked(await client.post("/sessions", json={"agent": "worker", "limits": limits}), 201)["session"]


async def test_a_session_that_has_used_its_limit_takes_no_input_until_it_is_raised(api: ApiProcess) -> None:
    """The run that reaches it fails, with the code; the next is refused; with more it goes on."""
    async with api.client() as client:
        session = await open_session(client, max_steps=4)
        assert checked(await client.get(f"/sessions/{session}"))["limits"] == {"max_steps": 4}
        assert checked(await client.post(f"/sessions/{session}/runs", json=run(2)))["status"] == "completed"
        failed = checked(await client.post(f"/sessions/{session}/runs", json=run(5)))
        assert (failed["status"], failed["error"]["code"], failed["steps"]) == ("failed", "session_max_steps", 1)
        key = {"Idempotency-Key": uuid.uuid4().hex}
        refused = await client.post(f"/sessions/{session}/runs", json=run(0), headers=key)
        assert code_of(refused, 409) == "session_limit_reached"
        assert refused.json()["limit"] == "max_steps"
        patched = await client.patch(f"/sessions/{session}", json={"limits": {"max_steps": 100}})
        assert checked(patched)["limits"] == {"max_steps": 100}
        later = await client.post(f"/sessions/{session}/runs", json=run(0), headers=key)
        assert checked(later)["status"] == "completed"
        assert checked(await client.patch(f"/sessions/{session}", json={"limits": None}))["limits"] is None


async def test_other_changes_leave_the_limits(api: ApiProcess) -> None:
    async with api.client() as client:
        session = await open_session(client, max_cost="1.50", max_duration=90.5, max_total_tokens=7)
        patched = checked(await client.patch(f"/sessions/{session}", json={"title": "new"}))
    assert patched["limits"] == {"max_cost": "1.50", "max_duration": 90.5, "max_total_tokens": 7}


async def test_a_run_that_opens_a_session_gives_its_limits(api: ApiProcess) -> None:
    async with api.client() as client:
        body = {**run(5), "agent": "worker", "limits": {"max_steps": 3}}
        failed = checked(await client.post("/runs", json=body))
        assert failed["error"]["code"] == "session_max_steps"
        shown = checked(await client.get(f"/sessions/{failed['session']}"))
    assert shown["limits"] == {"max_steps": 3}


@pytest.mark.parametrize(
    "limits", [{"max_steps": 0}, {"max_duration": 0}, {"max_cost": "-1"}, {"max_cost": "0"}, {"x": 1}]
)
async def test_limits_that_can_be_none_are_refused(api: ApiProcess, limits: dict[str, Any]) -> None:
    async with api.client() as client:
        response = await client.post("/sessions", json={"agent": "worker", "limits": limits})
    assert code_of(response, 422) == "invalid_input"


async def test_a_runs_own_limits_over_http(api: ApiProcess) -> None:
    """Tokens and time; the time is over in the middle of a tool call."""
    slow = json.dumps({"name": uuid.uuid4().hex, "steps": 1, "tool": "none", "seconds": 600})
    async with api.client() as client:
        body = {"agent": "worker", "input": slow, "mode": "wait", "wait_s": 60, "options": {"max_duration": 1.5}}
        failed = checked(await client.post("/runs", json=body))
    assert (failed["status"], failed["error"]["code"]) == ("failed", "max_duration")


async def test_shared_limits_are_listed(api: ApiProcess) -> None:
    async with api.client() as client:
        assert isinstance(checked(await client.get("/limits"))["limits"], list)


def command(stack: Stack, *arguments: str) -> tuple[int, str]:
    """What `perdure` answers: its exit code and what it wrote."""
    code = "import sys; from perdure.cli.main import main; sys.exit(main())"
    environment = {**os.environ, **stack.addressing}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_the_command_line_sets_and_takes_limits(stack: Stack) -> None:
    """Of a session that a run opens, and later; a number that can be no limit is refused."""
    out = command(stack, "run", "worker", run(5)["input"], "--limit", "max_steps=2", "--json")
    session = json.loads(out[1])["session"]
    assert out[0] == exits.FAILED
    changed = command(
        stack, "sessions", "patch", session, "--limit", "max_cost=2.5", "--limit", "max_steps=9", "--json"
    )
    assert json.loads(changed[1])["limits"] == {"max_cost": "2.5", "max_steps": 9}
    taken = command(stack, "sessions", "patch", session, "--no-limits", "--json")
    assert json.loads(taken[1])["limits"] is None
    assert command(stack, "sessions", "patch", session, "--limit", "max_steps=0")[0] == exits.USAGE
    assert json.loads(command(stack, "limits", "--json")[1])["limits"] is not None
