"""What is wrong with a thread: where, by which rule, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.errors import ProtocolError
from perdure.upp.json_value import JSONObject


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding.

    Attributes:
        path: where it stands, as in `actions[3].agent_id`; `thread` for the document itself.
        rule: a stable word for programs, such as "sequence".
        message: what is wrong.
        remedy: what to do.
        severity: a thread with an "error" is refused; a "warning" is only told.
    """

    path: str
    rule: str
    message: str
    remedy: str
    severity: Literal["error", "warning"] = "error"

    def to_json(self) -> JSONObject:
        """Returns it as an error body shows it."""
        return {
            "path": self.path,
            "rule": self.rule,
            "message": self.message,
            "remedy": self.remedy,
            "severity": self.severity,
        }

    def __str__(self) -> str:
        return f"{self.path}: {self.message}; {self.remedy}"


class InvalidThread(ProtocolError):
    """A thread, or another form of a conversation, that cannot be read; its code is the first problem's rule.

    Attributes:
        problems: all that was found, in the document's order.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        errors = [problem for problem in problems if problem.severity == "error"] or list(problems)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{errors[0]}{more}", code=errors[0].rule)
        self.problems = tuple(problems)


def refuse(path: str, rule: str, message: str, remedy: str) -> InvalidThread:
    """The error of a single problem."""
    return InvalidThread([Problem(path, rule, message, remedy)])
