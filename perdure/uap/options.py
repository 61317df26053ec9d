"""The options of one submit. They stand in the input's row and are frozen in the run's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from perdure.errors import InvalidInput
from perdure.uap.payments import is_source
from perdure.upp.json_value import JSONObject, JSONValue

_EMPTY_DEFAULT = ("params", "client_tools", "stream")


def _is_whole(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in cast("list[object]", value))


def _are_tools(value: object) -> bool:
    if not _is_list_of(value, dict):
        return False
    names = [tool.get("name") for tool in cast("list[dict[str, object]]", value)]
    return all(isinstance(name, str) and name for name in names)


def to_cost(value: object) -> Decimal | None:
    """The cost that a number or its text means; None if it means none that can be a limit."""
    try:
        cost = Decimal(value) if isinstance(value, Decimal | str | int) and not isinstance(value, bool) else None
    except InvalidOperation:
        return None
    return cost if cost is not None and cost.is_finite() and cost > 0 else None


def to_duration(value: object) -> timedelta | None:
    """The time that a timedelta or a number of seconds means; None if it means none that can be a limit."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            value = timedelta(seconds=value)
        except (OverflowError, ValueError):
            return None
    return value if isinstance(value, timedelta) and value > timedelta(0) else None


def plain_limit(value: Any) -> Any:
    """A limit as JSON has it: money as a decimal's text, time in seconds."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    return format(value, "f") if isinstance(value, Decimal) else value


LIMITS: dict[str, tuple[Callable[[object], bool], str]] = {
    "max_steps": (_is_whole, "a whole number of at least 1, or left out"),
    "max_total_tokens": (_is_whole, "a whole number of at least 1, or left out"),
    "max_cost": (lambda value: value is None or to_cost(value) is not None, "a decimal above 0, or left out"),
    "max_duration": (
        lambda value: value is None or to_duration(value) is not None,
        "a timedelta or a number of seconds above 0, or left out",
    ),
}
"""What each limit must be, as a check and in words."""
_NEEDED: dict[str, tuple[Callable[[object], bool], str]] = {
    **LIMITS,
    "instructions": (_is_text, "text, or left out"),
    "params": (_is_object, "a JSON object"),
    "tool_choice": (lambda value: _is_text(value) or _is_object(value), "a word or an object, or left out"),
    "response_format": (lambda value: value is None or _is_object(value), "a JSON object, or left out"),
    "modalities": (lambda value: value is None or _is_list_of(value, str), "a list of words, or left out"),
    "client_tools": (_are_tools, "a list of objects, each with a 'name' that is not empty"),
    "stream": (lambda value: isinstance(value, bool), "True or False"),
    "payment": (
        lambda value: value is None or is_source(value),
        'what `Payments.accept` returned, {"scheme": ..., "source": {...}}, or left out',
    ),
    "history": (lambda value: value is None or _is_list_of(value, dict), "a list of messages as JSON, or left out"),
}
"""What each option must be, as a check and in words: options come from outside as JSON."""


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
        max_cost: what the run may cost, in the currency of the table of prices; no further step begins once it has
            cost that much. Refused at the start if the model has no price. In JSON a decimal as text.
        max_total_tokens: input and output tokens that the run and its sub-agents may use; no further step begins once
            they have.
        max_duration: how long the run may take; what is under way then is cancelled, as by a user, and the run ends as
            `LimitExceeded`. The time in which it is paused, or parked until somebody has answered it, does not count;
            that in which only a sub-agent is does. In JSON a number of seconds, as may be given here.
        payment: what pays for the run, as `Payments.accept` returned it: no secret is in it. Without one a run of an agent
            that is paid for waits for a payment.
        history: messages (UPP MessageJSON, oldest first) that this run sees in place of the session's thread.
        stream: the run's events are read: a strategy of one's own runs its `stream`. Set by `agent.stream()`.
    """

    instructions: str | None = None
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    modalities: list[str] | None = None
    client_tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    max_steps: int | None = None
    max_cost: Decimal | None = None
    max_total_tokens: int | None = None
    max_duration: timedelta | None = None
    history: list[dict[str, Any]] | None = None
    stream: bool = False
    payment: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name, (fits, needed) in _NEEDED.items():
            value: object = getattr(self, name)
            if not fits(value):
                raise InvalidInput(f"{name} is {str(value)[:80]!r}; it must be {needed}")
        object.__setattr__(self, "max_cost", to_cost(self.max_cost))
        object.__setattr__(self, "max_duration", to_duration(self.max_duration))

    def to_json(self) -> JSONObject:
        """The options that differ from the defaults, by field name. An empty history is not the default."""
        pairs = ((f.name, plain_limit(getattr(self, f.name))) for f in dataclasses.fields(self))
        return {name: value for name, value in pairs if value is not None and (value or name not in _EMPTY_DEFAULT)}

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
