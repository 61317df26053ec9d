"""`guardrails`: functions that check what goes into a run and what comes out. Source: UAP-1.0 section 10.4."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from perdure.errors import GuardrailRejected, InvalidInput, StrategyError
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.user_call import call_user
from perdure.upp.content import AssistantContent, ContentBlock, ReasoningBlock, TextBlock, UserContent
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.turn import Turn

_KEPT = ("uap", "perdure")  # namespaces of a message's metadata that say nothing of what the model wrote
_MESSAGES = ("Message", "UserMessage", "AssistantMessage")


class Rejection(Exception):
    """What a guard raises or returns to reject.

    Attributes:
        reason: told to the caller.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Verdict: TypeAlias = str | Message | Rejection | None
InputGuard: TypeAlias = (
    Callable[[str], Verdict | Awaitable[Verdict]] | Callable[[UserMessage], Verdict | Awaitable[Verdict]]
)
OutputGuard: TypeAlias = (
    Callable[[str], Verdict | Awaitable[Verdict]] | Callable[[AssistantMessage], Verdict | Awaitable[Verdict]]
)


@dataclass(frozen=True, slots=True)
class _Guard:
    """One guard.

    Attributes:
        function: the user's.
        stage: "input" or "output".
        whole: it takes the message, not its text.
    """

    function: Callable[..., object]
    stage: str
    whole: bool

    async def check(self, message: Message) -> Message:
        """The message, or what the guard put in its place.

        Raises:
            GuardrailRejected: the guard rejected it.
        """
        try:
            verdict = await call_user(self.function, message if self.whole else message.text)
        except Rejection as rejection:
            verdict = rejection
        if isinstance(verdict, Rejection):
            what = "input" if self.stage == "input" else "answer"
            code = f"{self.stage}_rejected"
            raise GuardrailRejected(f"guard {self.name!r} rejected the {what}: {verdict.reason}", code=code)
        return message if verdict is None else self._replaced(message, verdict)

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def _replaced(self, message: Message, verdict: object) -> Message:
        if isinstance(verdict, str) and isinstance(message, UserMessage | AssistantMessage):
            return message if verdict == message.text else _with_text(message, verdict)
        if isinstance(verdict, type(message)):
            return verdict
        kind = type(message).__name__
        raise StrategyError(
            f"guard {self.name!r} returned a {type(verdict).__name__}; it must return None, text, a {kind} or a Rejection"
        )


class Guardrails(Middleware):
    """Checks inputs and answers. Made by `guardrails(...)`."""

    name = "guardrails"
    listens = frozenset()

    def __init__(self, guards: Sequence[_Guard]) -> None:
        """Takes the guards, each stage's in order."""
        self._input = [guard for guard in guards if guard.stage == "input"]
        self._output = [guard for guard in guards if guard.stage == "output"]

    @property
    def holds_deltas(self) -> bool:
        return bool(self._output)

    async def before(self, context: MiddlewareContext) -> MiddlewareContext:
        given = context.input
        for guard in self._input:
            given = await guard.check(given)
        return context if given is context.input else replace(context, input=given)

    async def after(self, context: MiddlewareContext, result: Turn) -> Turn:
        answer: Message = result.response
        for guard in self._output:
            answer = await guard.check(answer)
        return result if answer is result.response else _answered(result, answer)


def guardrails(*, input: Sequence[InputGuard] = (), output: Sequence[OutputGuard] = ()) -> Middleware:
    """Middleware that rejects or changes inputs and answers. It should come first in the list.

    A guard is a function, sync or async, of the text, or of the message if its parameter is annotated with a message's
    class. It returns None if all is well, text or a message to put in place of it, or returns or raises a `Rejection`.
    The next guard gets what the one before it left. What else a guard raises makes the run fail.

    Args:
        input: called before anything is sent to the model.
        output: called with the final answer. Nothing that is streamed is shown before they have seen it.

    Raises:
        InvalidInput: no guard at all, or one that cannot be called.
    """
    guards = [*_guards(input, "input"), *_guards(output, "output")]
    if not guards:
        raise InvalidInput("guardrails() lacks a guard: give input=[...] or output=[...]")
    return Guardrails(guards)


def _guards(functions: Sequence[object], stage: str) -> list[_Guard]:
    for item in functions:
        if not callable(item):
            raise InvalidInput(
                f"{stage} guard {item!r:.80} cannot be called; it must be a function of text or a message"
            )
    return [_Guard(cast("Callable[..., object]", item), stage, _takes_message(item)) for item in functions]


def _takes_message(function: object) -> bool:
    try:
        parameters = inspect.signature(cast("Callable[..., object]", function)).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    annotation: object = next((item.annotation for item in parameters.values()), None)
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.rpartition(".")[2] in _MESSAGES


def _with_text(message: UserMessage | AssistantMessage, text: str) -> Message:
    """The message with other text and the same media.

    Of an answer nothing stays that still says what the text was: no reasoning, and none of the vendor's own data.
    """
    first = next((block for block in message.content if isinstance(block, TextBlock)), None)
    content: list[ContentBlock] = [] if first else [TextBlock(text)]
    for block in message.content:
        if block is first:
            content.append(TextBlock(text))
        elif not isinstance(block, TextBlock | ReasoningBlock):
            content.append(block)
    if isinstance(message, UserMessage):
        said = cast("list[UserContent]", content)
        return UserMessage(said, id=message.id, timestamp=message.timestamp, metadata=message.metadata)
    metadata: dict[str, JSONObject] = {name: value for name, value in (message.metadata or {}).items() if name in _KEPT}
    answered = cast("list[AssistantContent]", content)
    return AssistantMessage(
        answered, message.tool_calls, id=message.id, timestamp=message.timestamp, metadata=metadata or None
    )


def _answered(turn: Turn, answer: Message) -> Turn:
    messages = [answer if message is turn.response else message for message in turn.messages]
    return replace(turn, messages=messages, data=None if turn.data is None else _data(answer.text))


def _data(text: str) -> JSONValue:
    """The structured answer that another text means; None if it is no JSON."""
    try:
        return cast(JSONValue, json.loads(text))
    except ValueError:
        return None
