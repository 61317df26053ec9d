"""How a server's replies are read where UAIP leaves the form open, or where a server has another one than UAIP 0.1.

A form maps what means the same. What a server's form has no room for is listed with the reason, and not asked.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import httpx

PROVIDE_STATE = "provide_state"
NEEDS_ITS_PROCESSES = "needs the server's processes"
_SHOWN = 160


def seen(response: httpx.Response) -> str:
    """A response in a line, for whoever reads that it was another one than it had to be."""
    text = response.text
    if text.startswith("{"):
        body = response.json()
        text = next((str(body[member]) for member in ("detail", "content") if member in body), text)
    return f"{response.status_code} {' '.join(text.split())[:_SHOWN]}"


def expect(response: httpx.Response, status: int) -> Any:
    """The body of a response that must have this status; an error has a text as `detail`."""
    assert response.status_code == status, seen(response)
    body = response.json()
    if status >= 400:
        assert isinstance(body["detail"], str), seen(response)
        assert body["detail"], seen(response)
    return body


class Form(Protocol):
    """A server's form.

    Attributes:
        lacks: numbers of checks that say nothing of a server of this form, each with the reason.
    """

    @property
    def lacks(self) -> Mapping[int, str]: ...

    def schema_path(self, workflow: str) -> str:
        """Where a workflow's schema is; the name is percent-encoded already."""
        ...

    def result(self, response: httpx.Response) -> Any:
        """What a task returned."""
        ...

    def failure(self, response: httpx.Response) -> str | None:
        """The message of what a task raised; None if it did not raise."""
        ...

    def refuses(self, response: httpx.Response) -> bool:
        """Whether an action was refused, where the specification names no status for it."""
        ...


class Specified:
    """UAIP 0.1, and the readings of what it leaves open."""

    lacks: Mapping[int, str] = MappingProxyType({})

    def schema_path(self, workflow: str) -> str:
        return f"/api/workflows/{workflow}"

    def result(self, response: httpx.Response) -> Any:
        assert response.status_code == 200, seen(response)
        body = response.json()
        assert body["status"] == "ok", seen(response)
        return body["result"]

    def failure(self, response: httpx.Response) -> str | None:
        assert response.status_code == 200, seen(response)
        body = response.json()
        return body["error"]["message"] if body["status"] == "error" else None

    def refuses(self, response: httpx.Response) -> bool:
        return response.status_code == 422 and isinstance(response.json()["detail"], str)


ONE_WORKFLOW = "one workflow a server: requests do not name it"
IGNORED = "`/initialize` ignores its body"


class Reference017:
    """The first UAIP server as PyPI has it: its replies are texts for a model, and the schema is at `/schema`."""

    lacks: Mapping[int, str] = MappingProxyType(
        {
            5: IGNORED,
            6: IGNORED,
            7: IGNORED,
            8: IGNORED,
            13: ONE_WORKFLOW,
            18: ONE_WORKFLOW,
            19: ONE_WORKFLOW,
        }
    )
    _done = "executed successfully.\n\nResult:\n"

    def schema_path(self, workflow: str) -> str:
        return "/schema"

    def result(self, response: httpx.Response) -> Any:
        content = self._content(response)
        assert self._done in content, seen(response)
        text = content.partition(self._done)[2]
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text  # a text is written without quotes

    def failure(self, response: httpx.Response) -> str | None:
        content = self._content(response)
        return content.removeprefix("Error: ") if content.startswith("Error: ") else None

    def refuses(self, response: httpx.Response) -> bool:
        asks = [tool["name"] for tool in response.json().get("tools", [])] == [PROVIDE_STATE]
        return asks or self.failure(response) is not None

    def _content(self, response: httpx.Response) -> str:
        assert response.status_code == 200, seen(response)
        return str(response.json().get("content", ""))


FORMS: Mapping[str, Form] = MappingProxyType({"uaip": Specified(), "uaip-0.1.7": Reference017()})
"""By the names that `PERDURE_UAIP_FORM` may have."""
