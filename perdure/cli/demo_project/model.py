"""The auditor's model: a function that knows nothing but the conversation, as a language model would.

It has no memory of its own and looks at no file: which files exist, what they hold and whether the report is written, it
reads from the tools' results, so it gives the same answers in any process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from perdure.cli.demo_project.ledger import Ledger
from perdure.cli.demo_project.report import Audit, Finding, count_words, find_marks, write_markdown
from perdure.upp import (
    AssistantMessage,
    JSONObject,
    LLMRequest,
    Message,
    ModelReference,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from perdure.upp.providers.scripted import Answer, call, scripted

NAME = "scripted-auditor"
READ_ALONE = 10
READ_TOGETHER = 8
MOST_READ = 250
_ON_THE_WAY_S = 0.1
_ANSWERING_S = 0.05


def auditor_model(ledger: Ledger) -> ModelReference:
    """The model, with the pace of a fast one; each call is noted in the ledger at the moment a vendor would bill it."""

    async def answer(request: LLMRequest) -> Answer:
        await asyncio.sleep(_ON_THE_WAY_S)
        number = sum(isinstance(message, AssistantMessage) for message in request.messages)
        ledger.note("model", str(number), NAME)
        return next_answer(request)

    return scripted(answer, name=NAME, latency=_ANSWERING_S, chunk_size=16)


def next_answer(request: LLMRequest) -> Answer:
    """What the auditor says and does next."""
    notes = _take_notes(request.messages)
    if notes.listing is None:
        if notes.failed:
            return Answer(f"The folder cannot be audited: {notes.failed}")
        return Answer("First I look which files there are.", [call("list_files")])
    if notes.report is not None:
        return Answer(_closing(notes, notes.report))
    said = _remark(notes)
    paths = _next_paths(notes)
    if paths:
        return Answer(said, [call("read_file", path=path) for path in paths])
    return Answer(said, [call("write_report", text=write_markdown(_audit(notes)))])


@dataclass(slots=True)
class _Notes:
    """The conversation so far.

    Attributes:
        asked: the user's words.
        listing: the result of `list_files`.
        failed: its error, if it failed.
        reads: path and result of each `read_file`, in order.
        last: those of the last message with results.
        report: the result of `write_report`.
    """

    asked: str = ""
    listing: JSONObject | None = None
    failed: str = ""
    reads: list[tuple[str, ToolResult]] = field(default_factory=list[tuple[str, ToolResult]])
    last: list[tuple[str, ToolResult]] = field(default_factory=list[tuple[str, ToolResult]])
    report: ToolResult | None = None


def _take_notes(messages: Sequence[Message]) -> _Notes:
    notes = _Notes()
    for message in messages:
        if isinstance(message, UserMessage):
            notes.asked = message.text
    for answered in _answered(messages):
        notes.last = []
        for called, result in answered:
            if called.tool_name == "list_files":
                if result.is_error:
                    notes.failed = result.text
                else:
                    notes.listing = cast(JSONObject, result.result)
            elif called.tool_name == "read_file":
                path = cast(str, cast(JSONObject, called.arguments)["path"])
                notes.last.append((path, result))
            else:
                notes.report = result
        notes.reads += notes.last
    return notes


def _answered(messages: Sequence[Message]) -> Iterator[list[tuple[ToolCall, ToolResult]]]:
    """The calls of each answer with their results."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = {called.tool_call_id: called for called in message.tool_calls or []}
        elif isinstance(message, ToolResultMessage):
            yield [(calls[result.tool_call_id], result) for result in message.results]


def _listed(notes: _Notes) -> list[str]:
    files = cast("list[JSONObject]", (notes.listing or {})["files"])
    return [cast(str, file["path"]) for file in files]


def _next_paths(notes: _Notes) -> list[str]:
    """One file at a time at first, then several at once, so that a large folder takes no more than some forty steps."""
    done = len(notes.reads)
    upto = min(done + (1 if done < READ_ALONE else READ_TOGETHER), MOST_READ)
    return _listed(notes)[done:upto]


def _findings(path: str, result: ToolResult) -> list[Finding]:
    """What a result of `read_file` shows."""
    if result.is_error:
        return []
    return find_marks(path, cast(str, cast(JSONObject, result.result).get("text", "")))


def _remark(notes: _Notes) -> str:
    """What the auditor makes of the last results."""
    if not notes.reads:
        count = len(_listed(notes))
        return f"There are {count} files." if count else "There are no files."
    said = [f"{path}: {_verdict(path, result)}." for path, result in notes.last]
    return " ".join(said)


def _verdict(path: str, result: ToolResult) -> str:
    reason = _unread_reason(result)
    if reason:
        return f"not read, {reason}"
    found = _findings(path, result)
    if not found:
        return "none"
    lines = ", ".join(str(finding.line) for finding in found[:5]) + (", …" if len(found) > 5 else "")
    return f"{count_words(found)} ({'line' if len(found) == 1 else 'lines'} {lines})"


def _unread_reason(result: ToolResult) -> str:
    if result.is_error:
        return result.text
    return cast(str, cast(JSONObject, result.result).get("skipped", ""))


def _audit(notes: _Notes) -> Audit:
    listing = notes.listing or {}
    unread = {path: reason for path, result in notes.reads if (reason := _unread_reason(result))}
    return Audit(
        folder=cast(str, listing["folder"]),
        asked=notes.asked,
        listed=len(_listed(notes)),
        complete=cast(bool, listing["complete"]),
        read=[path for path, _ in notes.reads if path not in unread],
        unread=unread,
        left_out=cast("list[str]", listing["left_out"]),
        findings=[finding for path, result in notes.reads for finding in _findings(path, result)],
    )


def _closing(notes: _Notes, report: ToolResult) -> str:
    if report.is_error:
        return f"The audit is done, but whether its report is written I cannot say: {report.text}"
    found = [finding for path, result in notes.reads for finding in _findings(path, result)]
    return f"The audit is done: {count_words(found) or 'no comments'} in {len(notes.reads)} files. {report.text}."
