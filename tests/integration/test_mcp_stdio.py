"""`perdure mcp`: a stage workflow for a client that starts the server itself, whoever is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification

from perdure.uaip.action import Action, ActionKind
from tests.integration.mcp_place import OTHER, McpPlace, buy, fields, handshake, request, tool_names
from tests.integration.stack import ROOT, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_a_client_starts_the_server_and_buys(mcp_place: McpPlace, mode: str, version: str) -> None:
    """After a handshake it hears of each change as it happens; a client of 2026 hears nothing that it did not ask for."""
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    def changes() -> int:
        return len([one for one in heard if isinstance(one, ToolListChangedNotification)])

    async def heard_all() -> bool:
        return changes() >= expected

    expected = 4 if mode == "legacy" else 0  # three moves, and the address given
    async with Client(mcp_place.stdio(), mode=mode, message_handler=hear) as client:
        assert client.protocol_version == version
        assert await tool_names(client) == ["search", "transition_stage", "terminate_session"]
        refused = await client.call_tool("pay", {})
        assert refused.is_error is True
        paid = await buy(client.call_tool)
        assert await tool_names(client) == ["terminate_session"]
        assert fields(paid)["session_id"] in str(client.instructions)
        await eventually(heard_all, what=f"{expected} changes: {heard}")
    assert changes() == expected


async def test_others_may_act_in_the_session_and_the_client_hears_of_it(mcp_place: McpPlace) -> None:
    session, heard = await mcp_place.open_session(), asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    async with Client(mcp_place.stdio("--session", session), mode="legacy", message_handler=hear) as client:
        assert "search" in await tool_names(client)
        async with mcp_place.stages() as stages:
            moved = await stages.execute(session, Action(ActionKind.STAGE_TRANSITION, "cart"))
            assert moved.status == 200
        async with asyncio.timeout(60):
            await heard.wait()
        assert "add" in await tool_names(client)


async def test_the_server_is_killed_half_way_and_another_goes_on(mcp_place: McpPlace) -> None:
    """A call was under way: its task is done once, and the client that comes next finds all as it was."""
    async with speaking(mcp_place) as server:
        session = await server.begin()
        await server.call("transition_stage", target_stage="cart")
        await server.call("add", sku="pen")
        await server.send(request(9, "tools/call", name="wrap", arguments={}))
        await mcp_place.stack.until_entries(session, "wrapping")
        server.process.send_signal(signal.SIGKILL)
        await server.process.wait()
    mcp_place.release(session)
    async with Client(mcp_place.stdio("--session", session), mode="legacy") as client:
        assert "add" in await tool_names(client)
        added = await client.call_tool("add", {"sku": "ink"})
        assert fields(added)["result"] == 2
    assert mcp_place.wrapped(session) == 1


async def test_a_client_that_leaves_ends_the_process_and_not_its_action(mcp_place: McpPlace) -> None:
    async with speaking(mcp_place) as server:
        session = await server.begin()
        await server.call("transition_stage", target_stage="cart")
        await server.send(request(9, "tools/call", name="wrap", arguments={}))
        await mcp_place.stack.until_entries(session, "wrapping")
        server.close()
        async with asyncio.timeout(60):
            assert await server.process.wait() == 0
        said = await server.said()
    assert f"--session {session}" in said, "it is told by which id one goes on"

    assert mcp_place.wrapped(session) == 0
    mcp_place.release(session)

    async def wrapped() -> bool:
        return mcp_place.wrapped(session) == 1

    await eventually(wrapped)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), "has workflow 'nothing'"),
        (("mcp_shop", "--session", "x"), "no stage session"),
        (("mcp_shop", "--tenant", OTHER, "--session", "{session}"), "no stage session"),
    ],
    ids=["workflow", "session", "tenant"],
)
async def test_what_is_not_there_is_exit_code_2(mcp_place: McpPlace, arguments: tuple[str, ...], words: str) -> None:
    session = await mcp_place.open_session()
    given = [argument.format(session=session) for argument in arguments]
    process = await asyncio.create_subprocess_exec(
        mcp_place.stdio().command, "-m", "perdure.cli.main", "mcp", *given,
        env={**os.environ, **mcp_place.environment}, cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert words in err.decode()


class Spoken:
    """`perdure mcp` spoken to line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._id = 0
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr

    async def send(self, message: dict[str, Any]) -> None:
        self._in.write(json.dumps(message).encode() + b"\n")
        await self._in.drain()

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request. Every line of standard output has to be of the protocol."""
        self._id += 1
        message = request(self._id, method, **params) if method != "initialize" else handshake(self._id)
        await self.send(message)
        while True:
            line = json.loads(await self._out.readline())
            assert line["jsonrpc"] == "2.0"
            if line.get("id") == self._id:
                return line["result"]

    async def begin(self) -> str:
        """Shake hands; the stage session's id."""
        begun = await self.ask("initialize")
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return begun["instructions"].partition("Stage session: ")[2].partition(".")[0]

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = await self.ask("tools/call", name=name, arguments=arguments)
        assert result["isError"] is False, result
        return result

    def close(self) -> None:
        self._in.close()

    async def said(self) -> str:
        """What it has written to standard error, once it has ended."""
        return (await self._err.read()).decode()


@asynccontextmanager
async def speaking(place: McpPlace) -> AsyncGenerator[Spoken]:
    """A server in a process of its own."""
    started = place.stdio()
    process = await asyncio.create_subprocess_exec(
        started.command, *started.args, env={**os.environ, **place.environment}, cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Spoken(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
