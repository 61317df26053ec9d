"""`logging`: the lines of real runs."""

from __future__ import annotations

import logging as python_logging
import re
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.middleware import logging
from perdure.uap.agent import Agent, agent
from perdure.uap.host import connected
from perdure.upp.content import ImageBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.function_tool import tool
from perdure.upp.media_source import Base64Source
from perdure.upp.messages import Message, UserMessage
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.usage import TokenUsage
from tests.unit.middleware.pipeline_host import PipelineHost

TIMES = re.compile(r"\d+\.\ds|\d+ms")


@tool
def look(word: str) -> str:
    """Look a word up."""
    return word


def made(*script: ScriptedAnswer) -> Agent:
    return agent(model=scripted([*script]), name="coder", tools=[look])


async def lines(runs: Agent, said: str | Message = "Hello", **options: Any) -> list[str]:
    """The lines of a run, with the agent's id and the times blotted out."""
    written: list[str] = []
    with connected(PipelineHost(logging(logger=written.append, **options))):
        try:
            await runs.run(said)
        except UPPError as error:
            written.append(f"raised {error.message}")
    return [TIMES.sub("T", line.replace(runs.id, "ID")) for line in written]


ANSWER = Answer("Hi there", usage=TokenUsage(100, 50, 150))
STARTED = "[UAP:INFO] [INFO] Agent ID starting execution (Execution started)"
COMPLETED = (
    "[UAP:INFO] [INFO] Agent ID completed in T (150 tokens): Execution completed in T, tokens=150, "
    "answer of 8 characters after 1 model calls and 0 tool calls"
)


async def test_at_info_a_run_has_a_line_at_its_start_and_at_its_end() -> None:
    assert await lines(made(ANSWER)) == [STARTED, COMPLETED]


async def test_at_debug_there_are_steps_and_the_beginning_of_messages() -> None:
    long = "x" * 201
    assert await lines(made(ANSWER), long, level="debug") == [
        STARTED,
        f'[UAP:DEBUG] [DEBUG] Input: "{long[:200]}…"',
        "[UAP:DEBUG] [DEBUG] Agent ID step 1 started",
        "[UAP:DEBUG] [DEBUG] Agent ID step 1 ended (150 tokens)",
        COMPLETED,
        '[UAP:DEBUG] [DEBUG] Response: "Hi there"',
    ]


async def test_messages_that_are_asked_for_are_whole() -> None:
    """And at info: who asks for them need not ask for everything else."""
    long = "x" * 2000
    assert await lines(made(ANSWER), long, include_messages=True) == [
        STARTED,
        f'[UAP:INFO] [INFO] Input: "{long}"',
        COMPLETED,
        '[UAP:INFO] [INFO] Response: "Hi there"',
    ]


async def test_tool_calls_have_their_names_and_arguments() -> None:
    written = await lines(made(Answer(tool_calls=[call("look", word="w"), call("look", word="v" * 300)]), ANSWER))
    assert written[1] == '[UAP:INFO] [INFO] Agent ID step 1 calls tool look with {"word":"w"}'
    assert written[2].startswith('[UAP:INFO] [INFO] Agent ID step 1 calls tool look with {"word":"vvv')
    assert written[2].endswith("v…")
    assert len(written) == 4


async def test_without_timing_no_line_has_a_time() -> None:
    started, completed = await lines(made(ANSWER), include_timing=False)
    assert started == STARTED
    assert completed.startswith("[UAP:INFO] [INFO] Agent ID completed (150 tokens): Execution completed, tokens=150,")


def failing() -> Agent:
    def refuse(_: object) -> Answer:
        raise UPPError("no such\nmodel", ErrorCode.MODEL_NOT_FOUND)

    return agent(model=scripted(refuse), name="failing")


async def test_an_error_has_one_line_and_is_raised() -> None:
    written = await lines(failing(), level="error")
    assert len(written) == 2
    assert written[0].startswith("[UAP:ERROR] [ERROR] Agent ID failed: Execution failed after T: ")
    assert "no such\\nmodel" in written[0]
    assert written[1] == "raised no such\nmodel"


async def test_the_stack_trace_is_there_at_debug_only() -> None:
    assert not any("Traceback" in line for line in await lines(failing()))
    trace = await lines(failing(), level="debug")
    start = next(place for place, line in enumerate(trace) if "[DEBUG] Traceback (most recent call last):" in line)
    assert "[ERROR]" in trace[start - 1]
    assert any("in refuse" in line for line in trace[start:])


async def test_what_is_said_cannot_make_lines_of_its_own() -> None:
    """Nor can a lone surrogate, a terminal's escape or a line separator do harm."""
    said = "a\n[UAP:ERROR] forged \x1b[2J \u2028 \ud800"
    written = await lines(made(ANSWER), said, include_messages=True)
    assert written[1] == r'[UAP:INFO] [INFO] Input: "a\n[UAP:ERROR] forged \x1b[2J \u2028 \ud800"'
    assert all(line.isprintable() for line in written)


async def test_media_are_named_and_not_written() -> None:
    image = ImageBlock(Base64Source("AAAA"), "image/png")
    written = await lines(made(ANSWER), UserMessage([TextBlock("see"), image]), include_messages=True)
    assert written[1].endswith('Input: "see [image]"')


async def test_by_default_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """So that they never mix with what a program writes."""
    with connected(PipelineHost(logging())):
        await made(ANSWER).run("Hello")
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.partition(" Agent ")[0] for line in err.splitlines()] == ["[UAP:INFO] [INFO]"] * 2


async def test_a_logger_of_pythons_own_may_take_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with connected(PipelineHost(logging(logger=python_logging.getLogger("x").info))):
        await made(ANSWER).run("Hello")
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("options", [{"level": "loud"}, {"level": "INFO"}, {"logger": "console"}])
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="must be"):
        logging(**options)
