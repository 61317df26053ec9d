"""The event log of a run as the events of one response: one beginning, one end, and what came in between.

Rows come in order and whole (see `log_row.is_cut`), folded ones as `perdure.runtime` unfolds them. The same rows give the
same events with the same ids, so that a client that comes back is told what it has not had. Source: UAMP 1.0, sections
3, 6.5 to 6.16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias, cast

from perdure.protocols.uamp_events.log_row import LogRow, RowHeads, check_whole
from perdure.protocols.uamp_events.payment_story import PaymentStory
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
    TranscriptDelta,
    TranscriptDone,
    UsageDelta,
)
from perdure.protocols.uamp_events.surrounding_events import PaymentRequired, ResponseEvent
from perdure.protocols.uamp_events.text_purity import pure
from perdure.protocols.uamp_events.tool_events import ToolEvents
from perdure.protocols.uamp_events.tool_story import place_of
from perdure.protocols.uamp_events.upp_blocks import stored_item
from perdure.protocols.uamp_events.usage import UsageStats, added, rest_of, usage_stats
from perdure.uap.content_refs import media_facts
from perdure.uap.events import CONTENT_ITEMS, PRESENTED, RUN_TERMINAL
from perdure.upp.content import TextBlock
from perdure.upp.json_value import JSONObject, JSONValue, encode_base64
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
        paid: bool = False,
        runs_alone: Callable[[str], bool] = lambda tool: False,
    ) -> None:
        """Read rows of `run`.

        Args:
            response_id: of all its events.
            run: its id; rows of other runs are passed over.
            session_id: the UAMP session that is told.
            client_tools: names of the tools that the client runs.
            thinking: whether the client is sent thinking events.
            currency: of costs.
            paid: the agent is paid for: the response is created once its payment was accepted.
            runs_alone: whether calls of a tool run alone, so that those behind it begin once it is over; for
                `waits_for_client`.
        """
        self.response_id = response_id
        self.run = run
        self.thinking = thinking
        self.is_over = False
        self._session = session_id
        self._currency = currency
        self._begun = False
        self._paid = paid
        self._payments = PaymentStory(response_id)
        self._output = ResponseOutput()
        self._tools = ToolEvents(response_id, client_tools, runs_alone)
        self._told = UsageStats()
        self._own: int | None = None
        self._heads: RowHeads

    @property
    def text(self) -> str:
        """All text that was said so far and counts: what a message said before it began anew does not."""
        return self._output.text

    @property
    def is_settled(self) -> bool:
        """Whether nothing more comes: it is over, and if something was held for it, it is told what is left."""
        return self.is_over and (self._payments.is_settled or not self._payments.is_held)

    @property
    def open_payment(self) -> str | None:
        """The wait that a payment answers; None if the run waits for none."""
        return self._payments.wait

    def payment_reminder(self) -> PaymentRequired | None:
        """The payment.required event that is still to be answered, as it was, for a client that comes back."""
        return self._payments.required

    @property
    def open_calls(self) -> dict[str, str]:
        """By call id, the wait that the client's result answers."""
        return self._tools.open_waits

    @property
    def asked_calls(self) -> dict[str, bool]:
        """By id, the calls that the client was asked to run, and whether there is a result."""
        return self._tools.asked

    @property
    def waits_for_client(self) -> bool:
        """Whether the run can only go on with results of the client, whose tool.call events are told."""
        return self._tools.waits_for_client

    def reminders(self) -> list[ToolCallEvent]:
        """The tool.call events that are still to be answered, as they were, for a client that comes back."""
        return self._tools.reminders()

    def take(self, row: LogRow, *, answer: AssistantMessage | None = None) -> Events:
        """The events of the next row; none for another run's, and none but of its payment once the response is over.

        Args:
            row: whole.
            answer: with the row that ends the run, the stored answer: what the response says in the end, whatever its
                deltas said. Without it, what the deltas said is the output.

        Raises:
            InvalidInput: the row holds a preview.
        """
        if row.run != self.run or (self.is_over and row.type != "payment.settled"):
            return []
        check_whole(row)
        self._heads = RowHeads(self._session, self.response_id, row)
        events: Events = [*self._payments.take(self._heads, row)]
        if self.is_over:
            return events
        if not self._begun and self._begins(row):
            self._begun = True
            events.append(ResponseCreated(**self._heads.next(), response_id=self.response_id))
        if _ends_text(row):
            events += self._told_text(self._output.end_text())
        return [*events, *self._read(row, answer)]

    def _begins(self, row: LogRow) -> bool:
        """Whether the response is created with this row."""
        return not self._paid or row.source != "run" or row.type == "payment.held"

    def _read(self, row: LogRow, answer: AssistantMessage | None) -> Events:
        match row.source:
            case "upp":
                event = StreamEvent.from_json({"type": row.type, **row.data})
                if event.type is StreamEventType.TOOL_EXECUTION_END:
                    return self._returned(event, row.data)
                return self._stream(event, *place_of(row.data))
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
                return self._returned(event, {})
            case StreamEventType.MESSAGE_STOP:
                return self._message_ended(message)
            case _:
                return []

    def _returned(self, event: StreamEvent, data: JSONObject) -> Events:
        """A tool has returned; its media is told with the result, and is output if it is to be shown."""
        media = [stored_item(item) for item in media_facts(data.get(CONTENT_ITEMS))]
        if data.get(PRESENTED) is True:
            self._output.show(media)
        return [*self._tools.ended(self._heads, event.delta, media)]

    def _text(self, message: str, text: str) -> Events:
        return [*self._told_text(self._output.say(message, text)), *self._transcript(message)]

    def _told_text(self, text: str) -> Events:
        if not text:
            return []
        return [ResponseDelta(**self._heads.next(), response_id=self.response_id, delta=TextDelta(text=text))]

    def _media(self, message: str, event: StreamEvent) -> Events:
        self._output.add_media(message, event)
        if event.type is not StreamEventType.AUDIO_DELTA or not event.delta.data:
            return []
        audio = encode_base64(event.delta.data)
        told = AudioDelta(**self._heads.next(), response_id=self.response_id, audio=audio)
        return [told, *self._transcript(message)]

    def _transcript(self, message: str) -> Events:
        """What a message that has sound says in words, as far as that was not told: its text is the transcript."""
        new = self._output.untranscribed(message)
        return [TranscriptDelta(**self._heads.next(), response_id=self.response_id, transcript=new)] if new else []

    def _message_ended(self, message: str) -> Events:
        duration = self._output.audio_ms(message)
        if duration is None:
            return []
        done = AudioDone(**self._heads.next(), response_id=self.response_id, duration_ms=duration)
        rest, words = self._transcript(message), self._output.said(message)
        if not words:
            return [done]
        return [done, *rest, TranscriptDone(**self._heads.next(), response_id=self.response_id, transcript=words)]

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
        if reason == "payment":
            return []  # payment.required says so
        told = self._tools.parked(self._heads, wait) if isinstance(wait, str) else None
        if told is not None:
            return [*told]
        head = self._heads.next()
        return [Progress(**head, target="response", target_id=self.response_id, stage="waiting", message=reason)]

    def _end(self, row: LogRow, answer: AssistantMessage | None) -> Events:
        self.is_over = True
        self._payments.ended()
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
        text = pure("".join(block.text for block in answer.blocks() if isinstance(block, TextBlock)))
        said = self._output.said(answer.id)
        if not said and text and not self._output.text.endswith(text):
            return [*self._text(answer.id, text), *self._told_text(self._output.end_text())]
        if said and said != text:
            self._output.correct(answer.id, text)
        return []


def _ends_text(row: LogRow) -> bool:
    """Whether no text follows directly on what was said: what looked like the beginning of a URL was none."""
    match row.source:
        case "upp":
            return row.type not in _TEXT
        case "own":
            told = row.data.get("upp")
            return not (isinstance(told, dict) and told.get("type") in _TEXT)
        case "run":
            return row.type == "run.parked" or row.type in RUN_TERMINAL
        case _:
            return True


def _step(row: LogRow) -> int | None:
    number = row.data.get("stepNumber")
    return number if isinstance(number, int) else None
