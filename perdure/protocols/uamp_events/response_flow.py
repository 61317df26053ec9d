"""The event log of a run as the events of one response: one beginning, one end, and what came in between.

Rows come in order and whole (see `log_row.is_cut`), folded ones as `perdure.runtime` unfolds them. The same rows give the
same events with the same ids, so that a client that comes back is told what it has not had. Source: UAMP 1.0, sections
3, 6.5 to 6.16.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias, cast

from perdure.protocols.uamp_events.log_row import LogRow, RowHeads, check_whole
from perdure.protocols.uamp_events.response_end import ended
from perdure.protocols.uamp_events.response_output import ResponseOutput
from perdure.protocols.uamp_events.server_events import (
    AudioDelta,
    AudioDone,
    Progress,
    ResponseCreated,
    ResponseDelta,
    TextDelta,
    Thinking,
    ToolCallEvent,
    UsageDelta,
)
from perdure.protocols.uamp_events.surrounding_events import ResponseEvent
from perdure.protocols.uamp_events.tool_events import ToolEvents
from perdure.protocols.uamp_events.tool_story import place_of
from perdure.protocols.uamp_events.usage import UsageStats, added, rest_of, usage_stats
from perdure.uap.events import RUN_TERMINAL
from perdure.upp.content import TextBlock
from perdure.upp.json_value import JSONValue, encode_base64
from perdure.upp.messages import AssistantMessage
from perdure.upp.stream import StreamEvent, StreamEventType
from perdure.upp.usage import TokenUsage

Events: TypeAlias = list[ResponseEvent]

_MEDIA = (StreamEventType.IMAGE_DELTA, StreamEventType.AUDIO_DELTA, StreamEventType.VIDEO_DELTA)
_TEXT = (StreamEventType.TEXT_DELTA, StreamEventType.OBJECT_DELTA)


class ResponseFlow:
    """Reads the rows of one run, one after the other."""

    def __init__(
        self,
        response_id: str,
        run: str,
        session_id: str,
        *,
        client_tools: Collection[str] = (),
        thinking: bool = True,
        currency: str = "USD",
    ) -> None:
        """Read rows of `run`.

        Args:
            response_id: of all its events.
            run: its id; rows of other runs are passed over.
            session_id: the UAMP session that is told.
            client_tools: names of the tools that the client runs.
            thinking: whether the client is sent thinking events.
            currency: of costs.
        """
        self.response_id = response_id
        self.run = run
        self.thinking = thinking
        self.is_over = False
        self._session = session_id
        self._currency = currency
        self._begun = False
        self._output = ResponseOutput()
        self._tools = ToolEvents(response_id, client_tools)
        self._told = UsageStats()
        self._own: int | None = None
        self._heads: RowHeads

    @property
    def open_calls(self) -> dict[str, str]:
        """By call id, the wait that the client's result answers."""
        return self._tools.open_waits

    @property
    def waits_for_client(self) -> bool:
        """Whether the run can only go on with results of the client, and all of its tool.call events are told."""
        return self._tools.waits_for_client

    def reminders(self) -> list[ToolCallEvent]:
        """The tool.call events that are still to be answered, as they were, for a client that comes back."""
        return self._tools.reminders()

    def take(self, row: LogRow, *, answer: AssistantMessage | None = None) -> Events:
        """The events of the next row; none for another run's, and none once the response is over.

        Args:
            row: whole.
            answer: with the row that ends the run, the stored answer: what the response says in the end, whatever its
                deltas said. Without it, what the deltas said is the output.

        Raises:
            InvalidInput: the row holds a preview.
        """
        if row.run != self.run or self.is_over:
            return []
        check_whole(row)
        self._heads = RowHeads(self._session, self.response_id, row)
        events: Events = []
        if not self._begun:
            self._begun = True
            events.append(ResponseCreated(**self._heads.next(), response_id=self.response_id))
        return [*events, *self._read(row, answer)]

    def _read(self, row: LogRow, answer: AssistantMessage | None) -> Events:
        match row.source:
            case "upp":
                return self._stream(StreamEvent.from_json({"type": row.type, **row.data}), *place_of(row.data))
            case "own":
                return self._told_by_strategy(row)
            case "uap":
                return [] if self._own is not None else self._uap(row)
            case _:
                return self._of_run(row, answer)

    def _told_by_strategy(self, row: LogRow) -> Events:
        """What a strategy of the user's own yielded; one that began again says the same once more."""
        number = row.data.get("n")
        if not isinstance(number, int) or number <= (-1 if self._own is None else self._own):
            return []
        self._own = number
        if "upp" not in row.data:
            return []
        event = StreamEvent.from_json(row.data["upp"])
        return self._stream(event, "own", event.index)

    def _stream(self, event: StreamEvent, message: str, index: int) -> Events:
        if event.type in _TEXT and event.delta.text:
            return self._text(message, event.delta.text)
        if event.type in _MEDIA:
            return self._media(message, event)
        match event.type:
            case StreamEventType.REASONING_DELTA:
                return self._think(event.delta.text, is_delta=True)
            case StreamEventType.TOOL_CALL_DELTA:
                return [*self._tools.fragment(self._heads, event.delta, message, index)]
            case StreamEventType.TOOL_EXECUTION_START:
                return [*self._tools.began(self._heads, event.delta, message, index)]
            case StreamEventType.TOOL_EXECUTION_END:
                return [*self._tools.ended(self._heads, event.delta)]
            case StreamEventType.MESSAGE_STOP:
                return self._message_ended(message)
            case _:
                return []

    def _text(self, message: str, text: str) -> Events:
        self._output.say(message, text)
        return [ResponseDelta(**self._heads.next(), response_id=self.response_id, delta=TextDelta(text=text))]

    def _media(self, message: str, event: StreamEvent) -> Events:
        self._output.add_media(message, event)
        if event.type is not StreamEventType.AUDIO_DELTA or not event.delta.data:
            return []
        audio = encode_base64(event.delta.data)
        return [AudioDelta(**self._heads.next(), response_id=self.response_id, audio=audio)]

    def _message_ended(self, message: str) -> Events:
        duration = self._output.audio_ms(message)
        if duration is None:
            return []
        return [AudioDone(**self._heads.next(), response_id=self.response_id, duration_ms=duration)]

    def _think(self, text: str | None, *, is_delta: bool) -> Events:
        if not text or not self.thinking:
            return []
        head = self._heads.next()
        return [Thinking(**head, content=text, redacted=False, is_delta=is_delta, response_id=self.response_id)]

    def _uap(self, row: LogRow) -> Events:
        match row.type:
            case "action":
                calls = cast("list[JSONValue]", row.data.get("toolCalls") or [])
                return [*self._tools.action(self._heads, calls)]
            case "step_start":
                head = self._heads.next()
                return [Progress(**head, target="response", target_id=self.response_id, stage="step", step=_step(row))]
            case "step_end":
                return self._used(usage_stats(TokenUsage.from_json(row.data.get("usage") or {})))
            case "reasoning":
                text = str(row.data.get("text") or "")
                return [] if text and text in self._output.text else self._think(text, is_delta=False)
            case _:
                return []

    def _used(self, more: UsageStats) -> Events:
        new = rest_of(more, UsageStats())
        if new is None:
            return []
        self._told = added(self._told, new)
        return [UsageDelta(**self._heads.next(), response_id=self.response_id, delta=new)]

    def _of_run(self, row: LogRow, answer: AssistantMessage | None) -> Events:
        if row.type in RUN_TERMINAL:
            return self._end(row, answer)
        match row.type:
            case "message.reset":
                return self._reset(str(row.data.get("message", "")))
            case "run.parked":
                return self._parked(str(row.data.get("reason") or "waiting"), row.data.get("wait"))
            case _:
                return []

    def _reset(self, message: str) -> Events:
        """The model begins its message anew. What was told cannot be taken back: the client is told so."""
        self._tools.take_back(message)
        if not self._output.take_back(message):
            return []
        head = self._heads.next()
        text = "the model's last message begins again; response.done says what counts"
        return [Progress(**head, target="response", target_id=self.response_id, stage="restarted", message=text)]

    def _parked(self, reason: str, wait: JSONValue) -> Events:
        told = self._tools.parked(self._heads, wait) if isinstance(wait, str) else None
        if told is not None:
            return [*told]
        head = self._heads.next()
        return [Progress(**head, target="response", target_id=self.response_id, stage="waiting", message=reason)]

    def _end(self, row: LogRow, answer: AssistantMessage | None) -> Events:
        self.is_over = True
        events = self._last_words(answer) if answer is not None and row.type == RUN_TERMINAL[0] else []
        usage = TokenUsage.from_json(row.data.get("usage") or {})
        whole = usage_stats(usage, currency=self._currency)
        rest = rest_of(whole, self._told)
        if rest is not None:
            events.append(UsageDelta(**self._heads.next(), response_id=self.response_id, delta=rest))
        stats = None if usage.is_empty else whole
        return [*events, ended(row, self._heads.next(), self.response_id, self._output.items(), stats)]

    def _last_words(self, answer: AssistantMessage) -> Events:
        """The answer's text is the stored one; it is told as a delta if nothing of it was."""
        text = "".join(block.text for block in answer.blocks() if isinstance(block, TextBlock))
        said = self._output.said(answer.id)
        if not said and text and not self._output.text.endswith(text):
            return self._text(answer.id, text)
        if said and said != text:
            self._output.correct(answer.id, text)
        return []


def _step(row: LogRow) -> int | None:
    number = row.data.get("stepNumber")
    return number if isinstance(number, int) else None
