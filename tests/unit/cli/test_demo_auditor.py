"""The demo's model and tools together, in this process: the model decides from what the tools really said."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import cast

import pytest

from perdure.cli.demo_project.agents import make_auditor
from perdure.cli.demo_project.folder import SAMPLE
from perdure.cli.demo_project.ledger import Ledger, repeated
from perdure.cli.demo_project.model import MOST_READ, READ_ALONE, READ_TOGETHER, auditor_model, next_answer
from perdure.cli.demo_project.tools import REPORT, make_tools
from perdure.upp import (
    AssistantMessage,
    JSONObject,
    LLMRequest,
    Tool,
    ToolCall,
    ToolContext,
    ToolEffect,
    ToolExecution,
    ToolResult,
    ToolResultMessage,
    Turn,
    UserMessage,
    execute_tool,
)
from perdure.upp.providers.scripted import scripted


async def audit(folder: Path, work: Path) -> Turn:
    """An audit without the model's pace."""
    auditor = dataclasses.replace(make_auditor(folder, work), model=scripted(next_answer))
    return await auditor.run("Audit it")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def answers(turn: Turn) -> list[AssistantMessage]:
    return [message for message in turn.messages if isinstance(message, AssistantMessage)]


async def test_the_sample_takes_twelve_steps_or_more_and_reads_some_files_at_once(work: Path) -> None:
    turn = await audit(SAMPLE, work)
    assert len(answers(turn)) >= 12
    assert any(len(answer.tool_calls or []) > 1 for answer in answers(turn))
    assert [execution.tool_name for execution in turn.tool_executions][-1] == "write_report"
    assert "9 TODO, 4 FIXME" in (work / REPORT).read_text(encoding="utf-8")


async def test_what_the_files_hold_decides_what_is_reported(project: Path, work: Path) -> None:
    (project / "größe [bold].py").write_text("x\n# TODO: größer\n", encoding="utf-8")
    await audit(project, work)
    assert "## `größe [bold].py`\n\n- line 2: `TODO: größer`" in (work / REPORT).read_text(encoding="utf-8")
    (project / "größe [bold].py").write_text("# done\n", encoding="utf-8")
    await audit(project, work)
    assert "None of them holds" in (work / REPORT).read_text(encoding="utf-8")


async def test_an_empty_folder_gets_a_report_too(project: Path, work: Path) -> None:
    turn = await audit(project, work)
    assert [execution.tool_name for execution in turn.tool_executions] == ["list_files", "write_report"]
    assert "holds no files" in (work / REPORT).read_text(encoding="utf-8")


async def test_hundreds_of_files_take_a_bounded_number_of_steps_and_the_cap_is_said(project: Path, work: Path) -> None:
    for number in range(MOST_READ + 50):
        (project / f"{number:03}").write_text("TODO\n", encoding="utf-8")
    turn = await audit(project, work)
    assert len(answers(turn)) == 1 + READ_ALONE + (MOST_READ - READ_ALONE) // READ_TOGETHER + 2
    report = (work / REPORT).read_text(encoding="utf-8")
    assert "250 files read; only the first 250 of 300 were looked at." in report
    assert report.count("## `") == MOST_READ


async def test_a_folder_that_vanished_is_said_and_ends_the_run(project: Path, work: Path) -> None:
    turn = await audit(project / "gone", work)
    assert "cannot be audited" in turn.messages[-1].text
    assert not (work / REPORT).exists()


async def test_files_that_cannot_be_read_are_named(project: Path, work: Path) -> None:
    (project / "image.png").write_bytes(b"\x89PNG\0")
    (project / os.fsdecode(b"bad\xff.py")).write_text("# TODO: rename\n", encoding="utf-8")
    await audit(project, work)
    report = (work / REPORT).read_text(encoding="utf-8")
    assert "- `image.png`: binary" in report
    assert "## `bad\N{REPLACEMENT CHARACTER}.py`\n\n- line 1: `TODO: rename`" in report


def test_a_file_deleted_between_listing_and_reading_is_named_as_not_read() -> None:
    listing: JSONObject = {"folder": "x", "files": [{"path": "a"}], "complete": True, "left_out": []}
    history = [
        UserMessage("Audit it"),
        AssistantMessage([], [ToolCall("1", "list_files", {})]),
        ToolResultMessage([ToolResult("1", listing)]),
        AssistantMessage([], [ToolCall("2", "read_file", {"path": "a"})]),
        ToolResultMessage([ToolResult("2", "'a' cannot be read: No such file", is_error=True)]),
    ]
    answer = next_answer(LLMRequest(history))
    [written] = answer.tool_calls
    assert "- `a`: 'a' cannot be read: No such file" in str(cast(JSONObject, written.arguments)["text"])


def test_a_report_of_unknown_outcome_is_not_written_again() -> None:
    listing: JSONObject = {"folder": "x", "files": [], "complete": True, "left_out": []}
    history = [
        UserMessage("Audit it"),
        AssistantMessage([], [ToolCall("1", "list_files", {})]),
        ToolResultMessage([ToolResult("1", listing)]),
        AssistantMessage([], [ToolCall("2", "write_report", {"text": "..."})]),
        ToolResultMessage([ToolResult("2", "The outcome of this call is not known", is_error=True)]),
    ]
    answer = next_answer(LLMRequest(history))
    assert not answer.tool_calls
    assert "I cannot say: The outcome of this call is not known" in answer.text


async def test_each_model_call_is_noted_with_its_number(work: Path) -> None:
    model = auditor_model(Ledger(work)).bind()
    await model.complete(LLMRequest([UserMessage("Audit it")]))
    await model.complete(LLMRequest([UserMessage("Audit it"), AssistantMessage("...")]))
    await model.complete(LLMRequest([UserMessage("Audit it"), AssistantMessage("...")]))
    entries = Ledger(work).entries()
    assert [(entry.kind, entry.key, entry.pid) for entry in entries] == [
        ("model", number, os.getpid()) for number in ("0", "1", "1")
    ]
    assert repeated(entries) == [entries[2]]


async def run_tool(tool: Tool, key: str, **arguments: str) -> ToolExecution:
    return await execute_tool(tool, ToolCall(key, tool.name, {**arguments}), ToolContext(key, key, 1))


async def test_each_tool_run_is_noted_also_one_that_fails(project: Path, work: Path) -> None:
    list_files, read_file, write_report = make_tools(project, work)
    await run_tool(list_files, "a")
    refused = await run_tool(read_file, "b", path="../work")
    await run_tool(write_report, "c", text="done")
    assert refused.is_error
    assert "outside of the audited folder" in str(refused.result)
    assert [(entry.kind, entry.key) for entry in Ledger(work).entries()] == [("tool", key) for key in "abc"]


def test_reading_has_no_effect_and_the_report_is_written_at_most_once(project: Path, work: Path) -> None:
    effects = [tool.effect for tool in make_tools(project, work)]
    assert effects == [ToolEffect.NONE, ToolEffect.NONE, ToolEffect.AT_MOST_ONCE]
    assert not list(project.iterdir())


def test_an_empty_ledger_has_no_entries(work: Path) -> None:
    assert Ledger(work).entries() == []
