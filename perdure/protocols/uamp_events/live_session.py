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

    def change(self, change: SessionChange) -> None:
        """Take over what a session.update changes of the configuration."""
        new = {"modalities": change.modalities, "instructions": change.instructions}
        self.config = self.config.model_copy(update={name: value for name, value in new.items() if value is not None})


def new_session(session_id: str, event: SessionCreate, draw_id: Callable[[], str]) -> LiveSession:
    """The session that an event asks for."""
    return LiveSession(session_id, event, event.session, InputBuffer(draw_id), event.client_capabilities)
