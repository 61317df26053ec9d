"""The port through which `agent.run()` and `agent.stream()` reach whatever runs it.

`connect()` installs the durable host; without one the in-process host serves, which the front door installs. So nothing
here imports a host.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from perdure.errors import ServerError
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.options import RunOptions
from perdure.upp.messages import Message
from perdure.upp.turn import Turn

if TYPE_CHECKING:
    from perdure.uap.agent import Agent


class Host(Protocol):
    """Something that runs agents."""

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        """Run `agent` on one message after `history` and return the turn."""
        ...

    def stream(
        self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions
    ) -> AgentStreamResult:
        """The same run, to be read as it goes; it begins when it is first read. What fails it is raised there."""
        ...


_default: list[Host] = []
_connected: ContextVar[Host | None] = ContextVar("perdure_host", default=None)


def install_default(host: Host) -> None:
    """Make `host` the one that serves where nothing is connected."""
    _default[:] = [host]


@contextmanager
def connected(host: Host) -> Generator[None]:
    """Make `host` serve `agent.run()` and `agent.stream()` in this context and the tasks that start in it."""
    token = _connected.set(host)
    try:
        yield
    finally:
        _connected.reset(token)


def current() -> Host:
    """The host that serves here: the connected one, else the in-process one."""
    host = _connected.get()
    if host is not None:
        return host
    if not _default:
        raise ServerError("no host is installed; import agent from perdure, not from perdure.uap")
    return _default[0]
