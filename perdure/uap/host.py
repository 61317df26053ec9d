"""The port through which `agent.run()` and `agent.stream()` reach whatever runs it.

`connect()` installs the durable host; without one the in-process host serves, which the front door installs. So nothing
here imports a host.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from perdure.errors import ServerError
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.options import RunOptions
from perdure.upp.messages import Message
from perdure.upp.turn import Turn

if TYPE_CHECKING:
    from perdure.uap.agent import Agent
    from perdure.uap.session import Session
    from perdure.uap.session_document import SessionDocument
    from perdure.uap.session_options import SessionOptions


class Host(Protocol):
    """Something that runs agents."""

    async def run(self, agent: Agent, history: Sequence[Message], message: Message, options: RunOptions) -> Turn:
        """Run `agent` on one message after `history` and return the turn."""
        ...

    def stream(
        self,
        agent: Agent,
        history: Sequence[Message],
        message: Message,
        options: RunOptions,
        *,
        sub_agents: bool = False,
    ) -> AgentStreamResult:
        """The same run, to be read as it goes; it begins when it is first read. What fails it is raised there.

        With `sub_agents` the events of its sub-agents are given too, with their path.
        """
        ...


@runtime_checkable
class SessionHost(Host, Protocol):
    """A host that keeps sessions itself. For others they are kept in the process that begins them."""

    def open_session(self, agent: Agent, options: SessionOptions, document: SessionDocument | None = None) -> Session:
        """A session of the host's: a new one, a stored one of the id given, or that of a document.

        Raises:
            InvalidInput: the agent or an option cannot be used.
        """
        ...


_default: list[Host] = []
_connected: ContextVar[Host | None] = ContextVar("perdure_host", default=None)


def install_default(host: Host) -> None:
    """Make `host` the one that serves where nothing is connected."""
    _default[:] = [host]


def keeper() -> SessionHost | None:
    """The host that keeps sessions begun here; None if this process does."""
    found = _connected.get()
    return found if isinstance(found, SessionHost) else None


def default() -> Host | None:
    """The host that serves where nothing is connected; None if none is installed."""
    return _default[0] if _default else None


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
