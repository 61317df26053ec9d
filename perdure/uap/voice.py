"""The port of spoken conversations: a backend accepts a client's invitation, and the two speak with each other beside us.

A real backend is a WebRTC endpoint or a vendor's realtime service; it is registered with `App(voice=...)` and lives in the
API's processes. Source: UAMP 1.0, section 7.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from perdure.upp.json_value import JSONObject


@dataclass(frozen=True, slots=True)
class VoiceFormats:
    """What a backend can hear and say.

    Attributes:
        input_formats: of sound that it hears, such as "opus" or "pcm16".
        output_formats: of sound that it makes.
        sample_rates: in Hz.
        voices: ids of those that it has.
    """

    input_formats: Sequence[str] = ("opus",)
    output_formats: Sequence[str] = ("opus",)
    sample_rates: Sequence[int] = ()
    voices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class VoiceInvitation:
    """A client that wants to speak.

    Attributes:
        call: the call's id, by which it is ended.
        tenant: whose it is.
        session: the session that the conversation is.
        agent: who is called.
        principal: who calls.
        sdp: a WebRTC offer, if there is one.
        voice: what the client wants of the voice, as it wrote it.
        input_audio_format: of the sound that it sends.
        output_audio_format: of the sound that it wants.
    """

    call: str
    tenant: str
    session: str
    agent: str
    principal: str
    sdp: str | None = None
    voice: JSONObject | None = None
    input_audio_format: str | None = None
    output_audio_format: str | None = None


@dataclass(frozen=True, slots=True)
class VoiceAnswer:
    """What a backend answers.

    Attributes:
        accepted: the call is taken.
        sdp: of one that is, the answer to its offer.
        reason: why it is not.
    """

    accepted: bool
    sdp: str | None = None
    reason: str | None = None


@runtime_checkable
class VoiceBackend(Protocol):
    """Takes calls."""

    @property
    def formats(self) -> VoiceFormats:
        """What it can hear and say."""
        ...

    async def accept(self, invitation: VoiceInvitation) -> VoiceAnswer:
        """Take a call, or decline it. The same call may be asked for again."""
        ...

    async def end(self, call: str) -> None:
        """A call is over; harmless if it is already, or was another process's."""
        ...
