"""A stored answer in a stream: what was not told of it as it came, and its actions' own chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.protocols.threadprotocol.content import joined, media_part, parts_of, text_part
from perdure.protocols.threadprotocol.live_blocks import LiveAnswer, LiveBlock
from perdure.protocols.threadprotocol.live_calls import LiveCall, LiveCalls
from perdure.protocols.threadprotocol.models import (
    AnyAction,
    AssistantMessageAction,
    SystemAction,
    ThinkingAction,
    ToolCallAction,
)
from perdure.protocols.threadprotocol.stream_notes import drop_chunk, note_chunk
from perdure.protocols.threadprotocol.to_stream import action_chunks, file_chunk
from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONObject, well_formed
from perdure.upp.messages import AssistantMessage


@dataclass(slots=True)
class AnswerTelling:
    """Tells one stored answer.

    Attributes:
        ident: of its row.
        answer: what was told of it.
        calls: of the run.
    """

    ident: str
    answer: LiveAnswer
    calls: LiveCalls

    def tell(self, message: AssistantMessage, actions: Sequence[AnyAction]) -> list[JSONObject]:
        """The chunks, in the order of the actions.

        What was told and is not what is stored is taken back first, and all is told as it is stored.
        """
        calls = message.tool_calls or []
        chunks: list[JSONObject] = []
        if not self.answer.agrees(message) or not self.calls.agree(self.ident, calls):
            self.answer = LiveAnswer()
            self.calls.forget(self.ident)
            chunks.append({"type": "reset-step"})
        chunks += self._untold(message)
        thoughts, texts = self.answer.told("reasoning"), self.answer.told("text")
        made = iter(self.calls.settle(self.ident, calls))
        for action in actions:
            match action:
                case ThinkingAction():
                    chunks += _thought(action, thoughts, self._name(action))
                case AssistantMessageAction():
                    chunks += _message(action, texts, self._name(action))
                    texts = []
                case ToolCallAction():
                    _hold(action, next(made))
                case SystemAction():
                    chunks += action_chunks(action, self._name(action))
                case _:
                    raise AssertionError(f"{action.action_type} is no action of an answer")
        chunks += self.calls.begin(self.ident)
        chunks += [drop_chunk("thinking", block.id) for block in thoughts]
        return chunks + [drop_chunk("assistant_message", block.id) for block in texts]

    def _untold(self, message: AssistantMessage) -> list[JSONObject]:
        """The text and reasoning of which nothing was told; what was told ends here."""
        chunks = self.answer.end()
        kinds = {kind for _, kind in self.answer.blocks}
        for index, block in enumerate(message.content):
            if isinstance(block, TextBlock) and "text" not in kinds and block.text:
                chunks += self.answer.take(self.ident, index, "text", block.text)
            elif isinstance(block, ReasoningBlock) and "reasoning" not in kinds and block.text:
                chunks += self.answer.take(self.ident, index, "reasoning", block.text)
        return [*chunks, *self.answer.end()]

    def _name(self, action: AnyAction) -> str:
        return f"{self.ident}-{action.sequence}"


def _thought(action: ThinkingAction, told: list[LiveBlock], name: str) -> list[JSONObject]:
    """A thinking; its block is the next that was told, unless the provider has told nothing of what it thought."""
    if not told or well_formed(told[0].text) != action.content:
        return action_chunks(action, name)
    block = told.pop(0)
    untold = ["signature"] if "".join(block.shown) == action.content else ["signature", "content"]
    return [note_chunk(action, block.id, untold=untold)]


def _message(action: AssistantMessageAction, told: Sequence[LiveBlock], name: str) -> list[JSONObject]:
    """What an answer says: its texts were told, its files are told now."""
    if not told:
        return action_chunks(action, name)
    files = [file_chunk(part) for part in parts_of(action.content) if part["type"] != "text"]
    parts = [text_part("".join(block.shown)) for block in told]
    parts += [media_part(str(chunk["mediaType"]), url=str(chunk["url"])) for chunk in files]
    untold = [] if joined(parts) == action.content else ["content"]
    return [*files, note_chunk(action, told[0].id, untold=untold)]


def _hold(action: ToolCallAction, call: LiveCall) -> None:
    call.thread_id = action.tool_call_id
    head: JSONObject = {"toolCallId": call.id, "toolName": call.name}
    begin: list[JSONObject] = [] if call.began else [{"type": "tool-input-start"} | head]
    call.began = True
    whole: JSONObject = {"type": "tool-input-available"} | head | {"input": action.args}
    call.held = [*begin, whole, note_chunk(action, call.id)]
