"""L97: values of registered secrets are in no row, history, log, stream or answer, whatever says them. Real processes."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database
from tests.clients.vendor_server import Reply, VendorServer, json_reply, sse_reply
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.stack import Stack, WorkerProcess, eventually

TARGET = "tests.integration.secret_agents:app"
MARKS = {"CANARY_APP": "[redacted:precious]", "CANARY_KEY": "[redacted:CANARY_KEY]"}


@dataclass
class Evidence:
    """Where the secrets were said, and what is left of it.

    Attributes:
        values: of the secrets, by variable.
        sessions: that were opened.
        places: everything that was kept or shown, as bytes, by where it was.
        sent: requests that the vendor got.
    """

    values: dict[str, str]
    sessions: list[str] = field(default_factory=list[str])
    places: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    sent: list[Any] = field(default_factory=list[Any])

    def add(self, place: str, data: bytes | str) -> None:
        self.places.setdefault(place, []).append(
            data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        )

    def whole(self, place: str) -> bytes:
        return b"\n".join(self.places[place])


def forms(value: str) -> dict[str, bytes]:
    """The ways in which a secret may have been kept; of base64 what is the same wherever it stands."""
    raw = value.encode()
    cores = {f"base64 {at}": base64.b64encode(b"x" * at + raw)[4 * bool(at) : -4] for at in range(3)}
    written = {
        "plain": raw, "json": json.dumps(value)[1:-1].encode(), "url": quote(value, safe="").encode(),
        "its random part": raw[-12:], **cores,
    }  # fmt: skip
    return {**written, **{f"hex of {name}": form.hex().encode() for name, form in written.items()}}


def chunks(*texts: str) -> Reply:
    """A vendor's streamed answer in these pieces."""
    events: list[dict[str, Any]] = [
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4.1",
         "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]}
        for text in texts
    ]  # fmt: skip
    end: dict[str, Any] = {**events[0], "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return sse_reply("".join(f"data: {json.dumps(event)}\n\n" for event in [*events, end]) + "data: [DONE]\n\n")


@pytest.fixture(scope="module")
def evidence(stack: Stack) -> Evidence:
    """All that was kept of one run of each agent that leaks."""
    mark = uuid.uuid4().hex
    made = Evidence({
        "CANARY_APP": f'cn"ry/a+é-{mark[:12]}',
        "CANARY_KEY": f"sk-canary+key/{mark[12:24]}",
        "CANARY_HEADER": f"canary-header-{mark[20:]}",
    })  # fmt: skip
    return asyncio.run(gather(stack, made))


async def gather(stack: Stack, made: Evidence) -> Evidence:
    async with AsyncExitStack() as closing:
        vendor = await closing.enter_async_context(VendorServer())
        common = {**made.values, "PERDURE_REDACT_ENV": ", ".join(made.values), "PERDURE_DEBUG": "1"}
        worker = WorkerProcess(stack, TARGET, PERDURE_TASK_QUEUE="secrets", PERDURE_TEST_VENDOR=vendor.url, **common)
        closing.callback(worker.kill)
        api = ApiProcess(stack, **common)
        closing.callback(api.kill)
        await asyncio.to_thread(worker.wait_ready)
        await asyncio.to_thread(api.wait_ready)
        client = await closing.enter_async_context(api.client())
        await say_all(client, vendor, made)
        await ask_wrongly(client, made)
        made.sent = list(vendor.received)
        await read_streams(client, made)
        for kind in ("text_delta", "reasoning_delta", "tool_call_delta"):
            made.add("deltas", said_in(made, kind))
        await read_histories(stack, made)
        await read_tables(stack, made)
        made.add("worker's log", worker.said)
        made.add("API's log", api.said)
    return made


async def say_all(client: httpx.AsyncClient, vendor: VendorServer, made: Evidence) -> None:
    """One run of each agent, submitted with the secret and answered with it."""
    value, key, header = made.values.values()
    whole = f"{key} and {header}."
    vendor.replies(chunks("The key is ", *(whole[at : at + 5] for at in range(0, len(whole), 5))))
    body = {"agent": "chatter", "input": f"I say {value}", "title": f"on {value}", "metadata": {"mine": value}}
    chat = checked(await client.post("/runs", json={**body, "options": {"instructions": value}}), 202)
    made.sessions.append(chat["session"])
    wait = await eventually(lambda: first_wait(client, chat), what="the approval")
    answer = {"answer": {"decision": "reject", "reason": f"not with {value}"}}
    made.add("answers", (await client.post(f"/waits/{wait}", json=answer)).text)
    for agent, status in (("hook-fails", "failed"), ("model-fails", "failed"), ("vendor", "completed")):
        await run_to(client, made, {"agent": agent, "input": "hello"}, status)
    vendor.replies(json_reply({"error": {"message": f"wrong {key} or {header}", "type": "invalid_request_error"}}, 400))
    await run_to(client, made, {"agent": "vendor", "input": "hello"}, "failed")
    shown = await eventually(lambda: ended(client, chat["run"]), what="the end of the chat")
    made.add("answers", json.dumps(shown, ensure_ascii=False))
    assert shown["status"] == "completed", shown
    listed = checked(await client.get("/sessions"))["sessions"]
    made.sessions += [row["session"] for row in listed if row["agent"] == "chatter/helper"]
    assert len(made.sessions) == 6, listed


async def run_to(client: httpx.AsyncClient, made: Evidence, body: dict[str, Any], status: str) -> None:
    run = checked(await client.post("/runs", json=body), 202)
    shown = await eventually(lambda: ended(client, run["run"]), what=f"the end of {body}")
    assert shown["status"] == status, shown
    made.add("answers", json.dumps(shown, ensure_ascii=False))
    made.sessions.append(run["session"])


async def first_wait(client: httpx.AsyncClient, run: dict[str, Any]) -> str | None:
    over = await ended(client, run["run"])
    assert over is None, json.dumps(over)
    waits = checked(await client.get("/waits", params={"session": run["session"]}))["waits"]
    return str(waits[0]["wait"]) if waits else None


async def ended(client: httpx.AsyncClient, run: str) -> dict[str, Any] | None:
    shown = checked(await client.get(f"/runs/{run}"))
    return shown if shown["status"] in ("completed", "failed", "cancelled") else None


async def ask_wrongly(client: httpx.AsyncClient, made: Evidence) -> None:
    """Requests that are refused, and say the secret in their body, path and address."""
    value = made.values["CANARY_APP"]
    bad = [
        client.post("/runs", json={"agent": value, "input": "x"}),
        client.post("/runs", json={"agent": "chatter", "input": "x", value: 1}),
        client.post("/runs", json={"agent": "chatter", "input": "x", "mode": value}),
        client.post("/runs", content=f'{{"agent": "{value}'),
        client.get("/sessions", params={"limit": value}),
        client.get("/sessions", params={"status": value}),
        client.get(f"/sessions/{quote(value, safe='')}"),
    ]
    for request in bad:
        response = await request
        assert 400 <= response.status_code < 500, response.text
        made.add("answers", response.text)
    assert code_of(await client.get("/sessions", params={"limit": value}), 422) == "invalid_input"


async def read_streams(client: httpx.AsyncClient, made: Evidence) -> None:
    for session in made.sessions:
        async with client.stream("GET", f"/sessions/{session}/events", params={"after": 0}) as response:
            async for line in response.aiter_lines():
                made.add("streams", line)
                if any(f'"type":"run.{end}"' in line for end in ("completed", "failed", "cancelled")):
                    break


async def read_histories(stack: Stack, made: Evidence) -> None:
    client = await connect_temporal(stack.addresses.temporal, "default")
    for session in made.sessions:
        history = await client.get_workflow_handle(f"session/default/{session}").fetch_history()
        for event in history.events:
            made.add("histories", event.SerializeToString())


async def read_tables(stack: Stack, made: Evidence) -> None:
    """Every row of every table, as bytes and as PostgreSQL writes it."""
    database = Database(stack.addresses.database_url, pool_size=1)
    async with database.driver() as connection:
        tables = "select table_name from information_schema.tables where table_schema = 'perdure'"
        for (table,) in await connection.fetch(tables):
            for row in await connection.fetch(f"select t, t::text from perdure.{table} t"):
                made.add("tables", row[1])
                made.add("tables", b" ".join(item for item in row[0].values() if isinstance(item, bytes)))
    await database.close()


def said_in(made: Evidence, kind: str) -> str:
    """All deltas of a kind, joined, as a viewer joins them."""
    lines = [line.removeprefix(b"data: ") for line in made.places["streams"] if line.startswith(b"data: {")]
    deltas = [
        event["data"]["delta"] for event in map(json.loads, lines) if event["type"] == kind and "delta" in event["data"]
    ]
    return "".join(str(delta.get("text") or delta.get("argumentsJson") or "") for delta in deltas)


@pytest.mark.parametrize("place", ["tables", "histories", "streams", "deltas", "worker's log", "API's log", "answers"])
def test_l97_a_secret_is_kept_nowhere(evidence: Evidence, place: str) -> None:
    """Neither whole nor but for one character, in no way in which it is written."""
    whole = evidence.whole(place)
    found = {
        (name, form)
        for name, value in evidence.values.items()
        for form, written in forms(value).items()
        if written in whole
    }
    assert found == set(), [
        line for line in evidence.places[place] if evidence.values["CANARY_APP"][-12:].encode() in line
    ]


@pytest.mark.parametrize("place", ["tables", "histories", "streams", "answers"])
@pytest.mark.parametrize("name", MARKS)
def test_l97_its_name_stands_where_it_was_said(evidence: Evidence, place: str, name: str) -> None:
    """So the secret did come there; and what stands around it is as it was."""
    assert MARKS[name].encode() in evidence.whole(place)


def test_l97_what_is_logged_with_it_is_logged_without_it(evidence: Evidence) -> None:
    assert b"a tool logs [redacted:precious]" in evidence.whole("worker's log")


def test_l97_a_secret_that_is_split_over_deltas_is_told_in_one_piece(evidence: Evidence) -> None:
    """What viewers were told, delta by delta, is the stored text."""
    whole = "The key is [redacted:CANARY_KEY] and [redacted:CANARY_HEADER]."
    assert whole.encode() in evidence.whole("deltas")
    assert whole.encode() in evidence.whole("answers")


def test_l97_who_needs_a_secret_has_it(stack: Stack, evidence: Evidence) -> None:
    """The vendor gets key and header; a tool gets the value, but not from a model that repeats it."""
    headers = {name.lower(): value for name, value in evidence.sent[0].headers.items()}
    assert headers["authorization"] == f"Bearer {evidence.values['CANARY_KEY']}"
    assert headers["x-account"] == evidence.values["CANARY_HEADER"]
    (told,) = stack.entries("leak", "tool")
    assert told["told"] == "[redacted:precious]"
    assert told["length"] == len(evidence.values["CANARY_APP"])
    assert evidence.values["CANARY_APP"] not in told["mask"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [(None, "env:CANARY_APP is not there"), ("short", "has 5 characters"), ("changeme", "is 8 letters")],
)
def test_a_worker_without_a_secret_that_it_can_keep_does_not_start(
    stack: Stack, value: str | None, reason: str
) -> None:
    """It says which, and never its value."""
    given = {
        "CANARY_APP": value or "",
        "CANARY_KEY": "x",
        "CANARY_HEADER": "x",
        "PERDURE_TEST_VENDOR": "http://127.0.0.1:9",
    }
    worker = WorkerProcess(stack, TARGET, PERDURE_TASK_QUEUE="secrets-none", **given)
    worker.wait_dead()
    assert worker.code == 2
    assert reason in worker.said
    assert "precious" in worker.said or value is None
    assert value is None or value not in worker.said
