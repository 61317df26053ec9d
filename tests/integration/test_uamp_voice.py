"""Voice invitations with a backend: it takes calls, its formats are told, and any process ends a call; the session goes on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import App
from perdure.errors import InvalidInput
from tests.conformance.uamp_client import TRANSPORTS, line_to
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess, eventually

APP = "tests.integration.voice_agents:app"


@pytest.fixture(scope="module")
def calls(stack: Stack) -> Path:
    """The file of calls."""
    path = stack.folder / f"calls-{uuid.uuid4().hex}"
    path.touch()
    return path


@pytest.fixture(scope="module")
def api(stack: Stack, calls: Path) -> Iterator[ApiProcess]:
    """A worker, and an API that has the app's voice backend."""
    environment = {"PERDURE_TASK_QUEUE": f"voice-{uuid.uuid4().hex}", "PERDURE_TEST_CALLS": str(calls)}
    worker = WorkerProcess(stack, APP, **environment)
    process = ApiProcess(stack, "--app", APP, **environment)
    worker.wait_ready()
    yield process.wait_ready()
    process.kill()
    worker.kill()


@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_check_74_an_invitation_is_accepted_and_ended_once(api: ApiProcess, calls: Path, kind: str) -> None:
    """With its answer to the offer; a call without an offer is declined; the end has a duration, and comes once."""
    async with line_to(api.url, kind) as line:
        talk = await line.open(agent="operator")
        audio = talk.capabilities["capabilities"]["audio"]
        assert (audio["output_formats"], audio["voices"], audio["supports_realtime"]) == (
            ["opus", "pcm16"],
            ["alto"],
            True,
        )
        call, other = str(uuid.uuid4()), str(uuid.uuid4())
        await talk.send("voice.invite", call_id=call, sdp="offer", voice={"voice_id": "alto"})
        accepted = await talk.hear("voice.accept", "voice.decline")
        assert (accepted["type"], accepted["call_id"], accepted["sdp"]) == ("voice.accept", call, "answer to offer")
        await talk.send("voice.invite", call_id=other)
        declined = await talk.hear("voice.accept", "voice.decline")
        assert (declined["type"], declined["call_id"], declined["reason"]) == ("voice.decline", other, "no offer")
        await talk.send("voice.end", call_id=call, reason="done")
        ended = await talk.hear("voice.end")
        assert (ended["call_id"], ended["reason"], ended["duration_ms"] >= 0) == (call, "done", True)
        await talk.send("voice.end", call_id=call)
        await talk.pause()
        assert talk.types.count("voice.end") == 1
        assert (await talk.ask("hi")).text == "hello"

    async def noted() -> bool:
        return has_heard(calls, f"end {call}")

    await eventually(noted, what="the backend hears the end")
    assert has_heard(calls, f"call {call} anonymous operator")


def has_heard(calls: Path, line: str) -> bool:
    """Whether the backend has written that down."""
    return line in calls.read_text()


def test_what_takes_no_calls_is_refused() -> None:
    wrong: object = object()
    with pytest.raises(InvalidInput, match="no voice backend"):
        App(voice=wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
