"""The options of one submit. They stand in the input's row and are frozen in the run's."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, cast

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, JSONValue


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What one run does otherwise than its agent says.

    Attributes:
        instructions: added below the agent's system prompt, never in its place.
        params: model parameters, merged over the agent's.
        tool_choice: "auto", "none", "required" or {"name": ...}.
        response_format: {"type": "text" | "json_object" | "json_schema", ...}.
        modalities: what the answer may hold, for example ["text"].
        client_tools: tools without a function, each {"name", "description", "parameters"}; the run waits for their results.
        max_steps: steps after which the run ends as `LimitExceeded`; None for the strategy's own limit.
        history: messages (UPP MessageJSON, oldest first) that this run sees in place of the session's thread.
    """

    instructions: str | None = None
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    modalities: list[str] | None = None
    client_tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    max_steps: int | None = None
    history: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        if self.max_steps is not None and (isinstance(self.max_steps, bool) or self.max_steps < 1):
            raise InvalidInput(f"max_steps is {self.max_steps!r}; it must be a whole number of at least 1, or left out")
        for tool in self.client_tools:
            if not isinstance(tool.get("name"), str) or not tool["name"]:
                raise InvalidInput("each of client_tools needs a 'name', a non-empty string")

    def to_json(self) -> JSONObject:
        """The options that differ from the defaults, by field name."""
        fields = dataclasses.fields(self)
        pairs = ((f.name, getattr(self, f.name)) for f in fields)
        return {name: value for name, value in pairs if value is not None and value != [] and value != {}}

    @classmethod
    def from_json(cls, data: JSONValue) -> RunOptions:
        """Read what `to_json` wrote.

        Raises:
            InvalidInput: not an object, or an option that does not exist.
        """
        if not isinstance(data, dict):
            raise InvalidInput("run options must be a JSON object")
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise InvalidInput(f"unknown run options {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        return cls(**cast(dict[str, Any], data))
