"""Which host serves `agent.run()`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from perdure.errors import ServerError
from perdure.uap import host
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.options import RunOptions
from perdure.upp.messages import Message
from perdure.upp.turn import Turn


class Fake:
    """A host that runs nothing."""

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        raise NotImplementedError

    def stream(
        self,
        agent: Agent,
        history: Sequence[Message],
        message: Message,
        options: RunOptions,
        *,
        sub_agents: bool = False,
    ) -> AgentStreamResult:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed at first, and what these tests install is gone after them."""
    monkeypatch.setattr(host, "_default", [])


def test_without_any_host_the_error_says_what_to_import() -> None:
    """Only the front door installs the in-process host."""
    with pytest.raises(ServerError, match="import agent from perdure"):
        host.current()


def test_the_default_serves_where_nothing_is_connected() -> None:
    """The last one installed."""
    first, second = Fake(), Fake()
    host.install_default(first)
    host.install_default(second)
    assert host.current() is second


def test_the_connected_host_goes_first_and_only_inside() -> None:
    """Nested connections: the inner one serves, then the outer one again, then the default; also after an error."""
    default, outer, inner = Fake(), Fake(), Fake()
    host.install_default(default)
    with pytest.raises(RuntimeError), host.connected(outer):  # noqa: PT012 - the error is the exit that is tested
        with host.connected(inner):
            assert host.current() is inner
        assert host.current() is outer
        raise RuntimeError
    assert host.current() is default


async def test_a_connection_is_for_its_own_tasks() -> None:
    """Tasks that start inside have it, one beside has not, and theirs do not leak out."""
    default, one, other = Fake(), Fake(), Fake()
    host.install_default(default)
    connected = asyncio.Event()
    leave = asyncio.Event()

    async def work(own: Fake) -> list[host.Host]:
        with host.connected(own):
            connected.set()
            await leave.wait()
            async with asyncio.TaskGroup() as group:
                child = group.create_task(_current())
            return [host.current(), child.result()]

    tasks = [asyncio.create_task(work(own)) for own in (one, other)]
    await connected.wait()
    assert host.current() is default
    leave.set()
    assert await asyncio.gather(*tasks) == [[one, one], [other, other]]


async def _current() -> host.Host:
    return host.current()
