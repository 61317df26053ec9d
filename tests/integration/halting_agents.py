"""An agent under the name of that of `batch_agents`, whose stream halts after its first words until the test releases it.

Input: "#call=x", which names it; `Stack.release({"name": "x"})` lets it go on.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

from perdure import App, agent
from perdure.upp import LLMRequest, UserMessage
from perdure.upp.provider import LLMResponse, LLMStreamResult, ModelReference
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import ScriptedModel, ScriptedProvider
from perdure.upp.stream import StreamEvent, StreamEventType
from tests.conformance.batch_agents import WORDS
from tests.integration.agents import held_until_released, write_ledger

BEFORE = 20
"""Deltas that are told before it halts."""


def _name(request: LLMRequest) -> str:
    said = next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))
    found = re.search(r"#call=(\w+)", said)
    assert found is not None, said
    return found[1]


def _words(request: LLMRequest) -> Answer:
    write_ledger("model", _name(request))
    return Answer(" ".join(f"word{number}" for number in range(WORDS)))


class HaltingModel(ScriptedModel):
    """Says its words, and halts among them."""

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        """See base class."""
        return LLMStreamResult(self._halting(request))

    async def _halting(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse]:
        deltas = 0
        async for event in self._stream(request):
            if isinstance(event, StreamEvent) and event.type is StreamEventType.TEXT_DELTA:
                deltas += 1
                if deltas > BEFORE:
                    await held_until_released(_name(request))
            yield event


model = ModelReference("scripted", ScriptedProvider(HaltingModel(_words, "scripted", 0.0, 5, 0.0, None)))
app = App(agents=[agent(name="echo-agent", model=model)])
