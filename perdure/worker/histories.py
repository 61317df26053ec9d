"""Histories to replay: read from files, or from Temporal; and written to files, for a later replay without servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from google.protobuf.json_format import ParseError
from temporalio.client import Client, WorkflowExecution, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities.contracts import SANDBOXED_SESSION, SESSION, STAGE
from perdure.errors import InvalidInput, UnknownSession
from perdure.uap.session_key import SessionKey

_TYPES = (SESSION, SANDBOXED_SESSION, STAGE)
_OURS = " OR ".join(f"WorkflowType = '{name}'" for name in _TYPES)
_LONGEST_NAME = 120
_STARTED = "workflowExecutionStartedEventAttributes"


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files that paths name: each file, and of each folder all that end in `.json`, in order.

    Raises:
        InvalidInput: a path is not there, or a folder holds none; a check of nothing must not pass.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(item for item in path.rglob("*.json") if item.is_file())
            if not inside:
                raise InvalidInput(f"{path} holds no .json file; --live --record {path} makes some")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise InvalidInput(f"{path} is no file or folder")
    return found


def read_file(path: Path) -> WorkflowHistory:
    """The history in a file, as `temporal workflow show --output json` or `write_history` wrote it.

    Raises:
        InvalidInput: it cannot be read, or is no history of a session.
    """
    try:
        document: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInput(f"{path} is no JSON: {error}") from error
    started = _started_of(document)
    if started is None:
        raise InvalidInput(
            f"{path} is no history; save one by `temporal workflow show --workflow-id ID --output json > FILE` or --record"
        )
    kind = str(cast("dict[str, Any]", started.get("workflowType") or {}).get("name"))
    if kind not in _TYPES:
        raise InvalidInput(f"{path} is the history of a {kind!r}, which is no workflow of Perdure; leave it out")
    try:
        return WorkflowHistory.from_json(str(started.get("workflowId") or path.stem), cast("dict[str, Any]", document))
    except (ParseError, ValueError, TypeError) as error:
        raise InvalidInput(f"{path} is no history that this version can read: {error}") from error


def _started_of(document: Any) -> dict[str, Any] | None:
    """What the first event of a history says of the execution; None if the document is no history."""
    try:
        started: object = document["events"][0][_STARTED]
    except (KeyError, IndexError, TypeError):
        return None
    return cast("dict[str, Any]", started) if isinstance(started, dict) else None


async def open_histories(client: Client, task_queue: str) -> AsyncIterator[WorkflowHistory]:
    """The history of each open execution of a task queue, so far; one at a time.

    Raises:
        RPCError: Temporal does not answer.
    """
    query = f"ExecutionStatus = 'Running' AND TaskQueue = '{task_queue}' AND ({_OURS})"
    async for found in client.list_workflows(query):
        history = await _fetch(client, found)
        if history is not None:
            yield history


async def session_histories(client: Client, key: SessionKey) -> AsyncIterator[WorkflowHistory]:
    """The histories of a session's executions that Temporal still has, oldest first; it may be a stage session.

    Raises:
        UnknownSession: it has none.
        RPCError: Temporal does not answer.
    """
    query = f"WorkflowId IN ('{_quoted(key.workflow_id)}', '{_quoted(key.stage_workflow_id)}')"
    found = [item async for item in client.list_workflows(query)]
    histories = 0
    for item in sorted(found, key=lambda item: item.start_time):
        history = await _fetch(client, item)
        if history is not None:
            histories += 1
            yield history
    if not histories:
        raise UnknownSession(f"Temporal has no history of session {key.session}: it never ran, or its time is over")


async def _fetch(client: Client, found: WorkflowExecution) -> WorkflowHistory | None:
    """An execution's history; None if it has been deleted since it was listed."""
    try:
        return await client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


def write_history(folder: Path, history: WorkflowHistory) -> Path:
    """Write a history so that `read_file` has it again, one event a line; return the file.

    Raises:
        InvalidInput: the folder cannot be written to.
    """
    session = quote(history.workflow_id.split("/", 2)[-1], safe="")  # an imported session's id may be any text
    path = folder / f"{session[:_LONGEST_NAME]}.{history.run_id}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            file.writelines(_lines(history))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    return path


def _lines(history: WorkflowHistory) -> Iterator[str]:
    events = history.to_json_dict()["events"]
    yield '{"events": [\n'
    for place, event in enumerate(events, start=1):
        yield json.dumps(event, separators=(",", ":")) + ("\n" if place == len(events) else ",\n")
    yield "]}\n"


def _quoted(text: str) -> str:
    """For Temporal's list filters."""
    return text.replace("\\", "\\\\").replace("'", "\\'")
