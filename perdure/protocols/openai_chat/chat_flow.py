"""The events of a response as a completion: whole, or chunk by chunk. Source: UAMP 1.0, section 13.3."""

from __future__ import annotations

from perdure.protocols.openai_chat.completion import (
    CompletionHead,
    FinishReason,
    call_delta,
    chunk,
    completion,
    usage_chunk,
)
from perdure.protocols.openai_chat.faults import ChatFault, response_fault
from perdure.protocols.uamp_events.content_items import TextItem
from perdure.protocols.uamp_events.server_events import (
    ResponseCancelled,
    ResponseDelta,
    ResponseDone,
    ResponseError,
    TextDelta,
    ToolCallEvent,
    UsageDelta,
)
from perdure.protocols.uamp_events.surrounding_events import ResponseEvent
from perdure.protocols.uamp_events.usage import UsageStats, added
from perdure.upp.json_value import JSONObject

DONE = "[DONE]"
"""The last data of a stream."""


class ChatFlow:
    """Takes the events of one response, in order.

    Only what the agent says and what the client is to run is told; the agent's own tools are its own business.
    """

    def __init__(self, head: CompletionHead) -> None:
        """Make a completion with this head."""
        self._head = head
        self._text: list[str] = []
        self._calls: list[ToolCallEvent] = []
        self._usage = UsageStats()
        self._reason: FinishReason | None = None
        self._begun = False

    @property
    def is_over(self) -> bool:
        """Whether the completion is complete."""
        return self._reason is not None

    def take(self, event: ResponseEvent, *, finish: FinishReason = "stop") -> list[JSONObject]:
        """The chunks of the next event, for a stream.

        Args:
            event: of the response.
            finish: with response.done, why the model stopped.

        Raises:
            ChatFault: the response failed or was cancelled.
        """
        if self.is_over:
            return []
        match event:
            case ResponseDelta(delta=TextDelta(text=text)):
                self._text.append(text)
                return self._after_role([chunk(self._head, {"content": text})])
            case ToolCallEvent():
                self._calls.append(event)
                return self._after_role([chunk(self._head, call_delta(len(self._calls) - 1, event))])
            case UsageDelta():
                self._usage = added(self._usage, event.delta)
                return []
            case ResponseDone():
                self._text = [item.text for item in event.response.output if isinstance(item, TextItem)]
                self._usage = event.response.usage or self._usage
                return self._finish(finish)
            case ResponseError():
                raise response_fault(event.error.code, event.error.message)
            case ResponseCancelled():
                raise ChatFault("the response was cancelled", status=409, code="cancelled")
            case _:
                return []

    def leave_to_client(self) -> list[JSONObject]:
        """The run waits for tools of the client's: the completion ends with their calls. Returns the last chunk.

        To be said once `ResponseFlow.waits_for_client` holds, so that parallel calls are together.
        """
        return [] if self.is_over else self._finish("tool_calls")

    def completion(self) -> JSONObject:
        """The whole completion.

        Raises:
            ChatFault: it is not over.
        """
        if self._reason is None:
            raise ChatFault("the response has not ended", status=500, code="internal_error")
        return completion(self._head, "".join(self._text), self._open_calls(), self._reason, self._usage)

    def usage(self) -> JSONObject:
        """The chunk that tells the usage, where the client asked for it; last before `DONE`."""
        return usage_chunk(self._head, self._usage)

    def _open_calls(self) -> list[ToolCallEvent]:
        """Calls that were answered within the response are no longer the client's to run."""
        return self._calls if self._reason == "tool_calls" else []

    def _finish(self, reason: FinishReason) -> list[JSONObject]:
        self._reason = reason
        return self._after_role([chunk(self._head, {}, reason)])

    def _after_role(self, chunks: list[JSONObject]) -> list[JSONObject]:
        if self._begun:
            return chunks
        self._begun = True
        return [chunk(self._head, {"role": "assistant", "content": ""}), *chunks]
