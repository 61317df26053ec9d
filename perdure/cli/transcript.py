"""A run as a person reads it while it goes on: the answer's text, and a line for each thing that happens besides."""

from __future__ import annotations

from collections.abc import Callable

from perdure.cli.output import in_short
from perdure.runtime.unfolding import Unfolding
from perdure.store.events import Event
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.stream import EventDelta


class Transcript:
    """Turns a run's events into text. The text of an answer that begins again is void; the reader is told so."""

    def __init__(self, write: Callable[[str], None], say: Callable[[str], None]) -> None:
        """Begin.

        Args:
            write: takes the answer's text, piece by piece.
            say: takes a line about anything else.
        """
        self._write = write
        self._say = say
        self._block: tuple[JSONValue, JSONValue] | None = None  # message and index of the text that was written last
        self._is_mid_line = False
        self._unfolding = Unfolding()

    def show(self, event: Event) -> None:
        """Show one event; most kinds are silent."""
        event = self._unfolding.new_in(event)
        match event.type:
            case "text_delta":
                self._text(event.data)
            case "message.reset":
                self._reset(event.data)
            case "action":
                self._action(event.data)
            case "tool_execution_end":
                self._result(event.data)
            case "run.parked" | "run.resumed" | "run.adopted":
                self._tell(_about_run(event))
            case "run.completed" | "run.failed" | "run.cancelled":
                self._end_line()
            case _:
                pass

    def _text(self, data: JSONObject) -> None:
        text = EventDelta.from_json(data.get("delta") or {}).text or ""
        block = (data.get("message"), data.get("index"))
        if self._block is not None and block != self._block:
            self._end_line()
        self._block = block
        self._write(text)
        self._is_mid_line = not text.endswith("\n") if text else self._is_mid_line

    def _reset(self, data: JSONObject) -> None:
        if self._block is not None and self._block[0] == data.get("message"):
            self._tell("the text since the last line of this kind is void: the model is asked again")
            self._block = None
        else:
            self._tell("the model is asked again")

    def _action(self, data: JSONObject) -> None:
        calls = data.get("toolCalls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                self._tell(f"-> {call.get('toolName')} {in_short(call.get('arguments'))}")

    def _result(self, data: JSONObject) -> None:
        delta = EventDelta.from_json(data.get("delta") or {})
        mark = "error: " if delta.is_error else ""
        self._tell(f"<- {delta.tool_name} {mark}{in_short(delta.result)}")

    def _tell(self, line: str) -> None:
        self._end_line()
        self._say(line)

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._write("\n")
            self._is_mid_line = False


def _about_run(event: Event) -> str:
    if event.type == "run.adopted":
        return "the run goes on in another execution"
    if event.type == "run.resumed":
        return "the run goes on"
    if event.data.get("reason") == "paused":
        return f"the session is paused; `perdure sessions resume {event.session}` lets the run go on"
    if event.data.get("reason") == "remote":
        return "the run waits for the answer of an agent elsewhere"
    return f"the run waits for an answer; `perdure waits list --session {event.session}` shows the question"
