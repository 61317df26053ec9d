"""Bodies of answers: JSON that keeps every character of what is stored."""

from __future__ import annotations

import json
from urllib.parse import quote

from fastapi.responses import JSONResponse

from perdure.upp.json_value import JSONValue


class Answer(JSONResponse):
    """A JSON response in UTF-8. A lone surrogate, which UTF-8 has not, is written as JSON's escape of it."""

    def render(self, content: JSONValue) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def on_wire(stored: bytes) -> bytes:
    """Stored JSON as UTF-8, whole: lone surrogates, which are stored as bytes that UTF-8 forbids, become escapes."""
    return stored.decode("utf-8", "surrogatepass").encode("utf-8", "backslashreplace")


def session_path(session: str) -> str:
    """Where a session is; the id of an imported one may be any text."""
    return f"/api/sessions/{quote(session, safe='')}"


def run_path(run: str) -> str:
    """Where a run is."""
    return f"/api/runs/{quote(run, safe='')}"


def page(name: str, items: list[JSONValue], following: str | None) -> Answer:
    """A page of a list.

    Args:
        name: what it is a list of.
        items: in order.
        following: the cursor of the page after it; None if this is the last.
    """
    return Answer({name: items, "next": following})
