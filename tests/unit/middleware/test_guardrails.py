"""`guardrails`: what they keep from the model and from the caller, in real runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from perdure.errors import GuardrailRejected, InvalidInput, RunError, StrategyError
from perdure.middleware import Rejection, guardrails
from perdure.uap.agent import agent
from perdure.uap.host import connected
from perdure.uap.middleware import Middleware, MiddlewareContext
from perdure.uap.middlewares.guardrails import InputGuard, OutputGuard
from perdure.upp.content import ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONValue
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.scripted import Answer, scripted
from perdure.upp.tool_call import ToolCall
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage
from tests.unit.middleware.pipeline_host import PipelineHost

EMAIL = re.compile(r"\S+@\S+")
IMAGE = ImageBlock(UrlSource("https://example.com/a.png"), "image/png")


async def run(
    *, input: Sequence[InputGuard] = (), output: Sequence[OutputGuard] = (), said: str | Message = "mail a@b.c",
    answer: str = "it is c@d.e", sent: list[LLMRequest] | None = None,
) -> Turn:  # fmt: skip
    def respond(request: LLMRequest) -> Answer:
        if sent is not None:
            sent.append(request)
        return Answer(answer)

    with connected(PipelineHost(guardrails(input=input, output=output))):
        return await agent(model=scripted(respond)).run(said)


def fine(text: str) -> None:
    assert text


def redact(text: str) -> str:
    return EMAIL.sub("[email]", text)


def refuse(text: str) -> Rejection:
    return Rejection("no mail")


def refuse_by_raising(text: str) -> None:
    raise Rejection("no mail")


async def refuse_later(text: str) -> Rejection:
    return Rejection("no mail")


@pytest.mark.parametrize("guard", [refuse, refuse_by_raising, refuse_later])
async def test_a_rejected_input_is_never_sent(guard: InputGuard) -> None:
    sent: list[LLMRequest] = []
    with pytest.raises(GuardrailRejected, match="rejected the input: no mail") as raised:
        await run(input=[guard], sent=sent)
    assert (raised.value.code, sent) == ("input_rejected", [])
    assert cast(Any, guard).__name__ in str(raised.value)


@pytest.mark.parametrize("guard", [refuse, refuse_by_raising, refuse_later])
async def test_a_rejected_answer_is_never_given(guard: OutputGuard) -> None:
    with pytest.raises(GuardrailRejected, match="rejected the answer: no mail") as raised:
        await run(output=[guard])
    assert raised.value.code == "output_rejected"
    assert "c@d.e" not in str(raised.value)


def test_a_rejection_is_an_error_of_the_run() -> None:
    assert issubclass(GuardrailRejected, RunError)


async def test_an_input_is_replaced_before_it_is_sent() -> None:
    """And in the turn, so that no thread keeps what was taken out."""
    sent: list[LLMRequest] = []
    turn = await run(input=[fine, redact], sent=sent)
    assert [message.text for message in sent[0].messages] == ["mail [email]"]
    assert turn.messages[0].text == "mail [email]"


async def test_an_answer_is_replaced_before_it_is_given() -> None:
    turn = await run(output=[fine, redact])
    assert turn.response.text == "it is [email]"
    assert [message.text for message in turn.messages] == ["mail a@b.c", "it is [email]"]


async def test_a_guard_gets_what_the_one_before_it_left() -> None:
    seen: list[str] = []
    await run(input=[redact, seen.append])
    assert seen == ["mail [email]"]


async def test_what_no_guard_changes_stays_the_very_message() -> None:
    said = UserMessage("mail a@b.c")
    turn = await run(input=[fine, str], output=[fine, str], said=said)
    assert turn.messages[0] is said


async def test_a_guard_may_take_the_message() -> None:
    seen: list[object] = []

    def user(message: UserMessage) -> None:
        seen.append(message)

    def whole(message: Message) -> None:
        seen.append(message)

    async def assistant(message: AssistantMessage) -> AssistantMessage:
        seen.append(message)
        return AssistantMessage("other")

    said = UserMessage("x")
    turn = await run(input=[user, whole], output=[assistant], said=said)
    assert [type(item) for item in seen] == [UserMessage, UserMessage, AssistantMessage]
    assert (turn.messages[0], turn.response.text) == (said, "other")


class Matcher:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __call__(self, text: str) -> str:
        return re.sub(self.pattern, "-", text)

    def of_message(self, message: UserMessage) -> str:
        return f"{message.type}"


async def test_a_guard_may_be_anything_that_can_be_called() -> None:
    turn = await run(input=[Matcher("mail"), partial(re.sub, "a@", "x@"), Matcher("").of_message])
    assert turn.messages[0].text == "user"
    turn = await run(input=[Matcher("mail"), partial(re.sub, "a@", "x@"), lambda text: f"{text}!"])
    assert turn.messages[0].text == "- x@b.c!"


async def test_text_takes_the_place_of_all_text_and_media_stay() -> None:
    said = UserMessage([IMAGE, TextBlock("a@b.c"), TextBlock("d@e.f")], id="m", metadata={"app": {"k": 1}})
    made = (await run(input=[redact], said=said)).messages[0]
    assert isinstance(made, UserMessage)
    assert made.content == [IMAGE, TextBlock("[email]\n\n[email]")]
    assert (made.id, made.timestamp, made.metadata) == (said.id, said.timestamp, said.metadata)


async def test_text_may_be_put_where_there_was_none() -> None:
    def add(text: str) -> str:
        return f"{text}look"

    made = (await run(input=[add], said=UserMessage([IMAGE]))).messages[0]
    assert isinstance(made, UserMessage)
    assert made.content == [TextBlock("look"), IMAGE]


def finished(answer: AssistantMessage, data: JSONValue = None) -> Turn:
    return Turn([UserMessage("go"), AssistantMessage("first"), answer], [], empty_usage(), 2, data)


async def after(middleware: Middleware, turn: Turn) -> Turn:
    context = MiddlewareContext(agent=agent(model=scripted(["x"])), input=UserMessage("go"))
    returned = middleware.after(context, turn)
    return returned if isinstance(returned, Turn) else await returned


async def test_nothing_of_a_replaced_answer_says_what_it_was() -> None:
    """Its reasoning may, and what the vendor wants back may hold the very text."""
    calls = [ToolCall("t", "look", {})]
    metadata = {"openai": {"items": ["a@b.c"]}, "uap": {"aborted": True}}
    answer = AssistantMessage([ReasoningBlock("a@b.c"), TextBlock("a@b.c")], calls, id="m", metadata=metadata)
    made = (await after(guardrails(output=[redact]), finished(answer))).response
    assert (made.content, made.tool_calls, made.id) == ([TextBlock("[email]")], calls, "m")
    assert made.metadata == {"uap": {"aborted": True}}


async def test_only_the_final_answer_is_checked() -> None:
    seen: list[str] = []
    turn = finished(AssistantMessage("last"))
    assert await after(guardrails(output=[seen.append]), turn) is turn
    assert seen == ["last"]


@pytest.mark.parametrize(("text", "data"), [('{"a": 2}', {"a": 2}), ("no json", None)])
async def test_structured_data_is_what_the_new_text_says(text: str, data: JSONValue) -> None:
    made = await after(guardrails(output=[lambda _: text]), finished(AssistantMessage('{"a": 1}'), {"a": 1}))
    assert made.data == data


async def test_the_rest_of_the_turn_stays() -> None:
    turn = finished(AssistantMessage("a@b.c"))
    made = await after(guardrails(output=[redact]), turn)
    assert replace(made, messages=turn.messages) == turn
    assert made.messages[:2] == turn.messages[:2]


async def test_what_else_a_guard_raises_makes_the_run_fail() -> None:
    """A guard that is broken lets nothing through."""

    def broken(text: str) -> None:
        raise ZeroDivisionError

    sent: list[LLMRequest] = []
    with pytest.raises(ZeroDivisionError):
        await run(input=[broken], sent=sent)
    assert sent == []


@pytest.mark.parametrize("verdict", [True, 1, AssistantMessage("x")])
async def test_a_guard_must_say_something_that_can_be_understood(verdict: object) -> None:
    with pytest.raises(StrategyError, match="it must return None, text, a UserMessage or a Rejection"):
        await run(input=[cast(InputGuard, lambda _: verdict)])  # pyright: ignore[reportUnknownLambdaType]


def test_deltas_are_held_for_output_guards_only() -> None:
    assert [guardrails(input=[fine]).holds_deltas, guardrails(output=[fine]).holds_deltas] == [False, True]


async def streamed(output: OutputGuard) -> tuple[str, list[str]]:
    """The text that a stream's reader was shown, and all its events; the run's error is the reader's."""
    kinds: list[str] = []
    shown = ""
    model = scripted([Answer("it is c@d.e")], chunk_size=2)
    with connected(PipelineHost(guardrails(output=[output]))):
        try:
            async for event in agent(model=model).stream("go"):
                kinds.append(event.source)
                shown += (event.upp.delta.text or "") if event.upp is not None else ""
        except GuardrailRejected:
            kinds.append("rejected")
    return shown, kinds


async def test_what_is_streamed_is_what_the_guards_left() -> None:
    assert (await streamed(fine))[0] == "it is c@d.e"
    assert (await streamed(redact))[0] == "it is [email]"


async def test_of_a_rejected_answer_nothing_is_streamed() -> None:
    assert await streamed(refuse) == ("", ["rejected"])


@pytest.mark.parametrize("options", [{}, {"input": ["text"]}, {"output": [None]}])
def test_guards_that_cannot_be_used_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"lacks a guard|cannot be called"):
        guardrails(**options)
