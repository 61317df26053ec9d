"""One session of a connection: what its client declared and sent, and what is open in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from perdure.protocols.uamp_events.capabilities import Capabilities
from perdure.protocols.uamp_events.client_events import ClientEvent, SessionChange, SessionCreate
from perdure.protocols.uamp_events.input_buffer import InputBuffer
from perdure.protocols.uamp_events.response_gate import ResponseGate
from perdure.protocols.uamp_events.session_config import SessionConfig

_REMEMBERED = 10_000


@dataclass(slots=True)
class LiveSession:
    """A session.

    Attributes:
        created: the event that asked for it.
        held: events that came before the server agreed to open it.
        server: the capabilities that it was last told.
        client: what the client declared, if it did.
        system: texts that the client added to the instructions.
        voice: by call id, when the voice session began; milliseconds since the epoch.
        has_own_token: it was opened with a token of its own, so that of the connection is not its.
        version: of its stored state, as last read.
        is_ending: its client has ended it; its responses' ends and session.end are still to be told.
    """

    id: str
    created: SessionCreate
    config: SessionConfig
    inputs: InputBuffer
    client: Capabilities | None
    gate: ResponseGate = field(default_factory=ResponseGate)
    server: Capabilities = field(default_factory=Capabilities)
    held: list[ClientEvent] = field(default_factory=list["ClientEvent"])
    system: list[str] = field(default_factory=list[str])
    voice: dict[str, int] = field(default_factory=dict[str, int])
    has_own_token: bool = False
    version: int = -1
    is_ending: bool = False
    cancelling: set[str] = field(default_factory=set[str])
    _seen: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def chat(self) -> str | None:
        """The chat that it belongs to."""
        return self.created.chat

    def saw(self, event_id: str) -> bool:
        """Whether an event of this id was applied before."""
        return event_id in self._seen

    def note(self, event_id: str) -> None:
        """An event of this id was applied."""
        self._seen[event_id] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def forget(self, event_id: str) -> None:
        """It was not, after all."""
        self._seen.pop(event_id, None)

    def change(self, change: SessionChange) -> None:
        """Take over what a session.update changes of the configuration."""
        new = {"modalities": change.modalities, "instructions": change.instructions}
        self.config = self.config.model_copy(update={name: value for name, value in new.items() if value is not None})


def new_session(session_id: str, event: SessionCreate, draw_id: Callable[[], str]) -> LiveSession:
    """The session that an event asks for."""
    buffer = InputBuffer(draw_id)
    own = event.token is not None
    return LiveSession(session_id, event, event.session, buffer, event.client_capabilities, has_own_token=own)
