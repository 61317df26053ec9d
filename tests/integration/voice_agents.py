"""An agent, and a voice backend that takes calls: with an offer it answers it; without one it declines."""

from __future__ import annotations

import os
from pathlib import Path

from perdure import App, agent
from perdure.uap.voice import VoiceAnswer, VoiceFormats, VoiceInvitation
from perdure.upp.providers.scripted import scripted


class Switchboard:
    """Writes down who calls, and whose call is over."""

    @property
    def formats(self) -> VoiceFormats:
        return VoiceFormats(("opus",), ("opus", "pcm16"), (48_000,), ("alto",))

    async def accept(self, invitation: VoiceInvitation) -> VoiceAnswer:
        self._note(f"call {invitation.call} {invitation.principal} {invitation.agent}")
        if invitation.sdp is None:
            return VoiceAnswer(accepted=False, reason="no offer")
        return VoiceAnswer(accepted=True, sdp=f"answer to {invitation.sdp}")

    async def end(self, call: str) -> None:
        self._note(f"end {call}")

    def _note(self, line: str) -> None:
        with Path(os.environ["PERDURE_TEST_CALLS"]).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


app = App(agents=[agent(name="operator", model=scripted(["hello"]))], voice=Switchboard())
