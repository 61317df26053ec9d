"""The auditor's three tools. Each notes in the ledger that it ran."""

from __future__ import annotations

from pathlib import Path

from perdure.cli.demo_project.folder import list_folder, read_inside
from perdure.cli.demo_project.ledger import Ledger
from perdure.upp import JSONObject, JSONValue, Tool, ToolContext, tool

REPORT = "REPORT.md"
_MOST_NAMED = 20


def make_tools(folder: Path, work: Path) -> list[Tool]:
    """The tools that audit one folder.

    Args:
        folder: what they read; nothing is ever written there.
        work: where the report and the ledger go.
    """
    ledger = Ledger(work)

    @tool(effect="none")
    def list_files(context: ToolContext) -> JSONObject:
        """List the folder's files with their sizes."""
        ledger.note("tool", context.idempotency_key, "list_files")
        listing = list_folder(folder)
        files: list[JSONValue] = [{"path": file.path, "size_bytes": file.size_bytes} for file in listing.files]
        left_out: list[JSONValue] = [*listing.left_out[:_MOST_NAMED]]
        return {"folder": folder.name, "files": files, "complete": listing.complete, "left_out": left_out}

    @tool(effect="none")
    def read_file(path: str, context: ToolContext) -> JSONObject:
        """Read one text file of the folder.

        Args:
            path: as `list_files` gives it.
            context: of this call.
        """
        ledger.note("tool", context.idempotency_key, "read_file")
        content = read_inside(folder, path)
        if content.skipped:
            return {"path": path, "size_bytes": content.size_bytes, "skipped": content.skipped}
        return {"path": path, "size_bytes": content.size_bytes, "text": content.text}

    @tool(effect="at_most_once")
    def write_report(text: str, context: ToolContext) -> str:
        """Write the audit's report, once, beside the audited folder's own files.

        Args:
            text: the whole report in Markdown.
            context: of this call.
        """
        ledger.note("tool", context.idempotency_key, "write_report")
        data = text.encode("utf-8", "backslashreplace")
        (work / REPORT).write_bytes(data)
        return f"{len(data)} bytes written to {REPORT}"

    return [list_files, read_file, write_report]
