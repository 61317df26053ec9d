"""`logging`: a line for what happens in a run. Source: UAP-1.0 section 10.3."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from perdure.errors import InvalidInput
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.upp.json_value import JSONValue, dumps
from perdure.upp.messages import Message
from perdure.upp.turn import Turn

LEVELS = ("debug", "info", "warn", "error")
SHORT = 200
_STARTED = "_logging_startTime"
_LEVEL_OF = {UAPEventType.STEP_START: "debug", UAPEventType.STEP_END: "debug", UAPEventType.ACTION: "info"}

LogLine: TypeAlias = Callable[[str], object]


class Logging(Middleware):
    """Writes lines about runs. Made by `logging(...)`."""

    name = "logging"

    def __init__(self, level: str, logger: LogLine, include_messages: bool, include_timing: bool) -> None:
        """Takes the lowest level that is written, and the options of `logging`."""
        self._lowest = LEVELS.index(level)
        self._logger = logger
        self._whole = include_messages
        self._timed = include_timing
        self.listens = frozenset(kind for kind, needed in _LEVEL_OF.items() if LEVELS.index(needed) >= self._lowest)

    async def before(self, context: MiddlewareContext) -> MiddlewareContext:
        if self._timed:
            context.metadata[_STARTED] = _now_ms()
        self._log("info", f"Agent {context.agent.id} starting execution (Execution started)")
        self._log(self._content_level, f"Input: {self._shown(_text(context.input))}")
        return context

    async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        took, tokens = self._took(context), result.usage.total_tokens
        in_seconds, in_ms = ("", "") if took is None else (f" in {took / 1000:.1f}s", f" in {took}ms")
        self._log(
            "info",
            f"Agent {context.agent.id} completed{in_seconds} ({tokens} tokens): "
            f"Execution completed{in_ms}, tokens={tokens}, {_summary(result)}",
        )
        self._log(self._content_level, f"Response: {self._shown(_text(result.response))}")
        return result

    async def on_error(self, context: MiddlewareContext, error: Exception) -> None:
        took = self._took(context)
        after = "" if took is None else f" after {took}ms"
        said = str(error) or type(error).__name__
        self._log("error", f"Agent {context.agent.id} failed: Execution failed{after}: {said}")
        for line in "".join(traceback.format_exception(error)).splitlines():
            self._log("debug", line)

    def on_event(self, context: MiddlewareContext, event: UAPEvent) -> None:
        step = f"Agent {event.agent_id} step {event.step}"
        match event.type:
            case UAPEventType.STEP_START:
                self._log("debug", f"{step} started")
            case UAPEventType.STEP_END:
                usage = event.data.get("usage")
                tokens = usage.get("totalTokens", 0) if isinstance(usage, dict) else 0
                self._log("debug", f"{step} ended ({tokens} tokens)")
            case UAPEventType.ACTION:
                for call in cast("list[Mapping[str, JSONValue]]", event.data.get("toolCalls") or []):
                    arguments = self._cut(dumps(call.get("arguments")).decode("utf-8", "surrogatepass"))
                    self._log("info", f"{step} calls tool {call.get('toolName')} with {arguments}")
            case _:
                pass

    @property
    def _content_level(self) -> str:
        """At which level messages are shown: who asks for them wants them at the usual one."""
        return "info" if self._whole else "debug"

    def _log(self, level: str, text: str) -> None:
        """Writes one line, whatever is in the text. It begins as upstream has it, then as the specification does."""
        if LEVELS.index(level) >= self._lowest:
            label = level.upper()
            self._logger(f"[UAP:{label}] [{label}] {_one_line(text)}")

    def _took(self, context: MiddlewareContext) -> int | None:
        started = context.metadata.get(_STARTED)
        return max(0, _now_ms() - int(started)) if self._timed and isinstance(started, int | float) else None

    def _shown(self, text: str) -> str:
        return f'"{self._cut(text)}"'

    def _cut(self, text: str) -> str:
        return text if self._whole or len(text) <= SHORT else f"{text[:SHORT]}…"


def logging(
    *,
    level: str = "info",
    logger: LogLine | None = None,
    include_messages: bool = False,
    include_timing: bool = True,
) -> Middleware:
    """Middleware that logs a run's start and end, its steps, tool calls and errors.

    Args:
        level: the lowest that is written: "debug", "info", "warn" or "error". Steps, the beginning of messages and
            stack traces are at "debug", tool calls with their arguments and the run's start and end at "info".
        logger: called with each line; must not block. By default lines go to the standard error stream.
        include_messages: messages and arguments are written whole, and messages at "info". They may be confidential.
        include_timing: how long the run took is written.

    Raises:
        InvalidInput: a level that there is not, or a logger that cannot be called.
    """
    if level not in LEVELS:
        raise InvalidInput(f"level is {level!r:.80}; it must be one of {', '.join(LEVELS)}")
    if logger is not None and not callable(cast(object, logger)):
        raise InvalidInput(f"logger is {logger!r:.80}; it must be a function of one line")
    return Logging(level, logger or _to_stderr, include_messages, include_timing)


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _text(message: Message) -> str:
    """A message's text, with other blocks named."""
    others = [f"[{block.type}]" for block in message.blocks() if block.type not in ("text", "reasoning")]
    return " ".join([*([message.text] if message.text else []), *others])


def _summary(turn: Turn) -> str:
    said, calls = len(turn.response.text), len(turn.tool_executions)
    return f"answer of {said} characters after {turn.cycles} model calls and {calls} tool calls"


def _one_line(text: str) -> str:
    """The text with what is not printable escaped, so that nobody can write lines into a log."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
