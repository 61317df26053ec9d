"""An agent of another server as a tool: its call is an ask by UAMP's envelope.

A durable run waits for the answer as it waits for a client's: the ask is a row that any process of this server follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal, Protocol, cast, get_args
from urllib.parse import urlsplit

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.tools import REMOTE, ApprovalHandler, Tool, ToolContext, ToolEffect

MESSAGE = "message"
Binding = Literal["h2", "h3", "ws", "grpc"]
NAME = "ask_agent"
DESCRIBED = "Ask an agent of another server and get its answer."
DAY = timedelta(days=1)

_PARAMETERS: JSONObject = {
    "type": "object",
    "properties": {
        MESSAGE: {
            "type": "string",
            "description": "What the agent is asked, with all that it must know: it does not see this conversation",
        }
    },
    "required": [MESSAGE],
}


class RemoteMedium(Protocol):
    """An image or other bytes in an answer."""

    @property
    def mime(self) -> str | None:
        """Its media type; None if the agent does not say."""
        ...

    @property
    def data(self) -> bytes:
        """Its bytes."""
        ...


class RemoteAnswer(Protocol):
    """What an agent elsewhere has answered."""

    @property
    def text(self) -> str:
        """Its words."""
        ...

    @property
    def media(self) -> Sequence[RemoteMedium]:
        """What it made besides."""
        ...

    @property
    def payload(self) -> JSONObject:
        """Of the last frame, which nobody has signed."""
        ...

    @property
    def is_signed(self) -> bool:
        """Whether it has signed words and media."""
        ...


class RemoteClient(Protocol):
    """Asks an agent elsewhere; `perdure.uamp_envelope_client.EnvelopeClient` does."""

    async def ask(self, content: str, *, to: str) -> RemoteAnswer:
        """Ask, and wait for the answer."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RemoteAgentTool(Tool):
    """A tool whose call asks an agent of another server. Made by `remote_agent`.

    Attributes:
        url: of the server.
        did: of the agent; None for the one that the server's manifest names.
        binding: how the server is talked to.
        needs_signature: an answer that the agent has not signed is an error.
        client: makes the client that a run without a durable host asks by.
    """

    effect_word: ClassVar[str] = REMOTE

    run: Callable[..., object] = field(init=False)
    url: str = field(kw_only=True)
    did: str | None = field(kw_only=True)
    binding: Binding = field(kw_only=True)
    needs_signature: bool = field(kw_only=True)
    client: Callable[[], RemoteClient] | None = field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", self._run)
        Tool.__post_init__(self)  # super() does not work in a dataclass with slots

    async def _run(self, arguments: JSONObject, context: ToolContext) -> JSONValue:
        """Ask from this process. A durable run does not come here."""
        if self.client is None:
            raise InvalidInput(
                f"{self.name} is asked in the name of a server, so its run must be durable; or say by which client it is "
                "asked here: remote_agent(..., client=...)"
            )
        if self.did is None:
            raise InvalidInput(f"{self.name} needs the agent's DID to be asked from here: remote_agent(..., did=...)")
        client = self.client()
        try:
            answer = await client.ask(asked_of(arguments), to=self.did)
        finally:
            await client.close()
        return result_of(answer, needs_signature=self.needs_signature)


UNSIGNED = "The agent's answer is not signed by it, so it is not used."


def result_of(answer: RemoteAnswer, *, needs_signature: bool) -> JSONValue:
    """What the model is told of an answer: its words, or what it is of media, or what its last frame holds.

    Args:
        answer: of the agent.
        needs_signature: one that it has not signed is not used.

    Raises:
        InvalidInput: it is not signed, and must be.
    """
    if needs_signature and not answer.is_signed:
        raise InvalidInput(UNSIGNED)
    if answer.text:
        return answer.text
    if answer.media:
        return [{"mime": item.mime, "size_bytes": len(item.data)} for item in answer.media]
    return "" if needs_signature else {name: value for name, value in answer.payload.items() if name != "transcript"}


def asked_of(arguments: JSONValue) -> str:
    """What an agent is asked by a call with these arguments.

    Raises:
        InvalidInput: they have no message.
    """
    message = arguments.get(MESSAGE) if isinstance(arguments, dict) else None
    if not isinstance(message, str) or not message.strip():
        raise InvalidInput(f"the call needs a {MESSAGE!r}: say what the agent is asked")
    return message


def remote_agent(
    url: str,
    *,
    did: str | None = None,
    name: str = NAME,
    description: str = DESCRIBED,
    binding: Binding = "h2",
    timeout: timedelta | None = DAY,
    needs_signature: bool = True,
    approval: ApprovalHandler | Literal["human"] | None = None,
    client: Callable[[], RemoteClient] | None = None,
) -> Tool:
    """A tool by which a model asks an agent of another server: `agent(..., tools=[remote_agent("https://...", ...)])`.

    A durable run waits for the answer without a connection, across restarts of both servers; the other agent runs once,
    however often it is asked. The ask is signed by the asking agent, as its server publishes it; what the server is told
    besides (a bearer token, a client certificate) is in the setting `uamp_credentials`.

    Args:
        url: of the server: `https://HOST` or `https://HOST:PORT`.
        did: of the agent; by default the one that the server's manifest names, which signs it.
        name: what the model calls it; of several such tools each needs its own.
        description: for the model: what the agent can be asked.
        binding: how the server is talked to: "h2", "h3", "ws" or "grpc".
        timeout: how long the answer is waited for; then the model is told that none came, and the agent that none is
            wanted. None means for ever.
        needs_signature: an answer that the agent has not signed is an error; False takes the server's word for it.
        approval: as of every tool.
        client: makes a `perdure.uamp_envelope_client.EnvelopeClient`, by which a run that is not durable asks.

    Raises:
        InvalidInput: the URL is none of a server, there is no such binding, or as `Tool`.
    """
    if binding not in get_args(Binding):
        raise InvalidInput(f"no binding {cast(object, binding)!r}; there are {', '.join(get_args(Binding))}")
    if binding == "grpc" and did is None:
        raise InvalidInput("a gRPC port has no manifest; say the agent's DID: remote_agent(..., did=...)")
    return RemoteAgentTool(
        name=name,
        description=description,
        parameters=_PARAMETERS,
        approval=approval,
        effect=ToolEffect.IDEMPOTENT,
        timeout=timeout,
        takes_context=True,
        url=_server(url),
        did=did,
        binding=binding,
        needs_signature=needs_signature,
        client=client,
    )


def _server(url: str) -> str:
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError as error:
        raise InvalidInput(f"{url!r} is no URL: {error}") from error
    if found.scheme != "https" or not found.hostname or found.username or found.path not in ("", "/") or found.query:
        raise InvalidInput(
            f"{url!r} must be a server's https://HOST or https://HOST:PORT; agents are not asked over plain TCP"
        )
    host = f"[{found.hostname}]" if ":" in found.hostname else found.hostname
    return f"https://{host}" if port is None else f"https://{host}:{port}"
