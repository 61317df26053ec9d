"""The events of a response as a completion: whole, or chunk by chunk. Source: UAMP 1.0, section 13.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.protocols.openai_chat.call_ids import call_id_of
from perdure.protocols.openai_chat.completion import (
    CompletionHead,
    FinishReason,
    call_delta,
    chunk,
    completion,
    media_member,
    usage_chunk,
)
from perdure.protocols.openai_chat.faults import ChatFault, response_fault
from perdure.protocols.uamp_events.content_items import ContentItem, TextItem
from perdure.protocols.uamp_events.server_events import (
    ResponseCancelled,
    ResponseDone,
    ResponseError,
    ToolCallEvent,
)
from perdure.protocols.uamp_events.surrounding_events import ResponseEvent
from perdure.protocols.uamp_events.usage import UsageStats
from perdure.upp.json_value import JSONObject

DONE = "[DONE]"
"""The last data of a stream."""

_REASONS: dict[str, FinishReason] = {"max_tokens": "length", "content_filter": "content_filter"}


def finish_reason(stop: str) -> FinishReason:
    """Why a completion ended, by UPP's word for why the model stopped."""
    return _REASONS.get(stop, "stop")


class ChatFlow:
    """Takes the events of one response, in order, or of the part of it that one completion is.

    Only what the agent says and what the client is to run is told; the agent's own tools are its own business.
    """

    def __init__(self, head: CompletionHead, *, streams: bool) -> None:
        """Make a completion.

        Args:
            head: of it and of its chunks.
            streams: what was told in chunks cannot be taken back.
        """
        self._head = head
        self._streams = streams
        self._text = ""
        self._told = ""
        self._calls: list[ToolCallEvent] = []
        self._media: list[ContentItem] = []
        self._reason: FinishReason | None = None
        self._begun = False
        self.usage = UsageStats()

    @property
    def is_over(self) -> bool:
        """Whether the completion is complete."""
        return self._reason is not None

    @property
    def text(self) -> str:
        """What the agent has said in it."""
        return self._text

    def take(self, events: Sequence[ResponseEvent], text: str, *, stop: str = "end_turn") -> list[JSONObject]:
        """The chunks of the next events, for a stream.

        Args:
            events: of the response.
            text: all that the agent has said in this completion so far, and that counts.
            stop: with response.done, why the model stopped.

        Raises:
            ChatFault: the response failed or was cancelled, or what was told does not count any more.
        """
        if self.is_over:
            return []
        for event in events:
            match event:
                case ResponseDone():
                    self._media = [item for item in event.response.output if not isinstance(item, TextItem)]
                    return self._after_role([*self._say(text), self._finish(finish_reason(stop))])
                case ResponseError():
                    raise response_fault(event.error.code, event.error.message)
                case ResponseCancelled():
                    raise ChatFault("the response was cancelled", status=409, code="cancelled")
                case _:
                    pass
        return self._after_role(self._say(text))

    def leave_to_client(self, calls: Sequence[ToolCallEvent], waits: Mapping[str, str]) -> list[JSONObject]:
        """The run waits for tools of the client's: the completion ends with their calls. Returns the last chunks.

        To be said once `ResponseFlow.waits_for_client` holds, so that parallel calls are together.

        Args:
            calls: that are to be answered, in the model's order.
            waits: for their results, by the ids of the calls.
        """
        if self.is_over:
            return []
        self._calls = [call.model_copy(update={"call_id": call_id_of(waits[call.call_id])}) for call in calls]
        told = [chunk(self._head, call_delta(index, call)) for index, call in enumerate(self._calls)]
        return self._after_role([*told, self._finish("tool_calls")])

    def completion(self) -> JSONObject:
        """The whole completion.

        Raises:
            ChatFault: it is not over.
        """
        if self._reason is None:
            raise ChatFault("the response has not ended", status=500, code="internal_error")
        return completion(self._head, self._text, self._calls, self._reason, self.usage, self._media)

    def usage_chunk(self) -> JSONObject:
        """The chunk that tells the usage, where the client asked for it; last before `DONE`."""
        return usage_chunk(self._head, self.usage)

    def _say(self, text: str) -> list[JSONObject]:
        """The chunk of what is new in the text.

        A model's message that begins anew, as after a crash, mostly says the same once more: of that nothing is told.
        """
        self._text = text
        if not self._streams or self._told.startswith(text):
            return []
        if not text.startswith(self._told):
            raise _restarted()
        new, self._told = text[len(self._told) :], text
        return [chunk(self._head, {"content": new})]

    def _finish(self, reason: FinishReason) -> JSONObject:
        if self._streams and self._told != self._text:
            raise _restarted()
        self._reason = reason
        return chunk(self._head, media_member(self._media), reason)

    def _after_role(self, chunks: list[JSONObject]) -> list[JSONObject]:
        if self._begun or not chunks:
            return chunks
        self._begun = True
        return [chunk(self._head, {"role": "assistant", "content": ""}), *chunks]


def _restarted() -> ChatFault:
    return ChatFault(
        "the agent's answer is another one than was told so far, as where its model had to begin anew; the run goes on: "
        "ask again without 'stream' and with the same Idempotency-Key for the answer",
        status=500,
        code="answer_restarted",
    )
