"""Tools: what a model may call. How a call is carried out is in `tool_loop`; `@tool` is in `function_tool`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Final, Literal, TypeAlias, cast

from perdure.errors import InvalidInput
from perdure.upp.json_schema import check_schema
from perdure.upp.json_value import JSONObject, JSONValue, jsonable
from perdure.upp.secrets import Secret, declared, value_of
from perdure.upp.tool_media import ContentSource, ToolMedia, known_content, whole_content
from perdure.upp.tool_retry import ToolRetry

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as a tool's name."""

HUMAN: Final = "human"
"""The approval that a person gives."""

CLIENT: Final = "client"
"""What stands for the effect of a tool that the client runs; and"""
REMOTE: Final = "remote"
"""of one that asks an agent elsewhere: a durable run waits for the answer."""

SHORT_TIMEOUT: Final = timedelta(seconds=10)
"""What a short tool may take at most, and does where it says nothing."""

Approval: TypeAlias = bool | Literal["human"]
ApprovalHandler: TypeAlias = Callable[[JSONObject], Approval | Awaitable[Approval]]


class ToolEffect(StrEnum):
    """What a second run of the same call would do; it decides what happens after an unknown outcome.

    NONE: the tool changes nothing, it may run again. IDEMPOTENT: the tool honours its idempotency key, it may run
    again with the same key. AT_MOST_ONCE: it is not run again, the model is told that the outcome is unknown.
    ONCE: it is not run again, the run waits for a person's decision.
    """

    NONE = "none"
    IDEMPOTENT = "idempotent"
    AT_MOST_ONCE = "at_most_once"
    ONCE = "once"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know about the call it serves.

    Attributes:
        call_id: the tool call's id.
        idempotency_key: the same for every attempt of this call, and of no other call.
        attempt: 1 for the first, also of those that the tool's `retry` makes.
        secrets: references, by name; of the App that is served.
        contents: stored media of the tenant whose run it is; None where there is none to reach.
    """

    call_id: str
    idempotency_key: str
    attempt: int
    secrets: Mapping[str, Secret] = field(default_factory=declared, repr=False, compare=False)
    contents: ContentSource | None = field(default=None, repr=False, compare=False)

    def secret(self, name: str) -> str:
        """The value of a secret of the App, as it is now; it is redacted in what the tool returns or raises.

        Raises:
            InvalidInput: the App names no such secret, or it has no value.
        """
        return value_of(self.secrets, name)

    async def find_content(self, content_id: str) -> ToolMedia:
        """The facts of stored media, without its bytes.

        Raises:
            InvalidInput: there is none of this id.
        """
        return await known_content(self._contents(), content_id)

    async def read_content(self, content_id: str) -> ToolMedia:
        """Stored media with its bytes, such as what a client has uploaded or another tool has made.

        Raises:
            InvalidInput: there is none of this id.
        """
        return await whole_content(self._contents(), content_id)

    def _contents(self) -> ContentSource:
        if self.contents is None:
            raise InvalidInput("no stored media can be reached here; an agent's run can")
        return self.contents


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool. Its arguments are never validated by UPP; a tool made by `@tool` validates its own.

    Attributes:
        name: unique among the tools of one agent; 1 to 64 of letters, digits, `_` and `-`.
        parameters: a JSON Schema of type object, sent to the model as it is.
        run: takes the arguments as one object, and after it the ToolContext if `takes_context`; sync functions run
            on a daemon thread; the value must be JSON or something that `jsonable` turns into it. None for a tool
            that the client runs: a durable run waits for its result.
        approval: "human": a person approves each call; a durable run waits for that. Or a function of the arguments
            that says whether the call may run: True, False, or "human" where a person is to decide. None means that
            every call may.
        metadata: one object per provider name.
        effect: what a second run would do.
        timeout: for `run` alone, not for the approval; None means no limit. Of a tool that the client runs: how long
            its result is waited for.
        sequential: the call is a barrier among the calls of its message.
        takes_context: whether `run` takes a ToolContext.
        approval_timeout: how long a person's approval is waited for; then the model is told that there was none. None
            means for ever.
        retry: when `run` is called again after it has raised; only for a tool whose effect says that it may. The model
            is told of the last failure.
        short: `run` ends within a second, so that a durable run calls it where the run itself is worked on, which
            costs a third; signals of the run wait meanwhile. Its timeout is at most 10 s, and 10 s by default.

    Raises:
        InvalidInput: the name, the parameters (no JSON Schema 2020-12), the effect, the approval, the retry or a
            timeout cannot be used.

    Source: UPP-1.2, Tool; "human", run=None, effect, timeouts, sequential, takes_context, retry and short are Perdure's.
    """

    effect_word: ClassVar[str | None] = None
    """What stands for the effect of a kind of tool that a durable run does not run itself."""

    name: str
    description: str
    parameters: JSONObject
    run: Callable[..., object] | None
    approval: ApprovalHandler | Literal["human"] | None = None
    metadata: dict[str, JSONObject] | None = None
    effect: ToolEffect = ToolEffect.AT_MOST_ONCE
    timeout: timedelta | None = None
    sequential: bool = False
    takes_context: bool = False
    approval_timeout: timedelta | None = None
    retry: ToolRetry | None = None
    short: bool = False

    def __post_init__(self) -> None:
        if TOOL_NAME.fullmatch(self.name) is None:
            raise InvalidInput(f"tool name {self.name!r} must be 1 to 64 letters, digits, '_' or '-'")
        if self.effect not in tuple(ToolEffect):
            raise InvalidInput(f"tool '{self.name}': effect {self.effect!r} must be one of {', '.join(ToolEffect)}")
        object.__setattr__(self, "effect", ToolEffect(self.effect))
        for name, timeout in (("timeout", self.timeout), ("approval_timeout", self.approval_timeout)):
            if timeout is not None and not _is_positive(timeout):
                raise InvalidInput(f"tool '{self.name}': {name} {timeout!r} must be a timedelta above zero")
        self._check_approval()
        self._check_retry()
        self._check_short()
        if self.parameters.get("type") != "object":
            raise InvalidInput(f"tool '{self.name}': parameters must be a JSON Schema of type 'object'")
        for name in ("parameters", "metadata"):
            object.__setattr__(self, name, self._to_json(name))
        check_schema(self.parameters, f"tool '{self.name}'")

    def _check_approval(self) -> None:
        approval = cast(object, self.approval)
        if approval is not None and approval != HUMAN and not callable(approval):
            raise InvalidInput(
                f"tool '{self.name}': approval {approval!r} must be \"human\" or a function of the arguments"
            )
        if self.approval_timeout is not None and self.approval is None:
            raise InvalidInput(f"tool '{self.name}': approval_timeout needs an approval, such as approval=\"human\"")
        if self.run is None and self.approval is not None:
            raise InvalidInput(f"tool '{self.name}' is run by the client, which may ask a person; leave approval out")

    def _check_retry(self) -> None:
        if self.retry is None:
            return
        if not isinstance(cast(object, self.retry), ToolRetry):
            raise InvalidInput(f"tool '{self.name}': retry {self.retry!r} must be a ToolRetry")
        if self.run is None:
            raise InvalidInput(f"tool '{self.name}' is run by the client, which may try again; leave retry out")
        if self.effect not in (ToolEffect.NONE, ToolEffect.IDEMPOTENT):
            raise InvalidInput(
                f"tool '{self.name}': retry needs effect 'none' or 'idempotent', not '{self.effect}': "
                "a call that has failed may have had its effect"
            )

    def _check_short(self) -> None:
        if not self.short:
            return
        if self.run is None or self.effect_word is not None:
            raise InvalidInput(f"tool '{self.name}' is not run by the durable run itself; leave short out")
        if self.approval is not None:
            raise InvalidInput(f"tool '{self.name}': a call that may wait for a person is not short; leave short out")
        if self.timeout is None:
            object.__setattr__(self, "timeout", SHORT_TIMEOUT)
        elif self.timeout > SHORT_TIMEOUT:
            raise InvalidInput(
                f"tool '{self.name}': timeout {self.timeout} is more than the {SHORT_TIMEOUT.total_seconds():.0f} s "
                "that a short tool may take; leave short out"
            )

    def _to_json(self, name: str) -> JSONValue:
        """Returns a copy of a field; it is sent to providers, so it must be JSON from the start."""
        try:
            return jsonable(getattr(self, name))
        except TypeError as error:
            raise InvalidInput(f"tool '{self.name}': {name} must be JSON: {error}") from error


def _is_positive(timeout: object) -> bool:
    return isinstance(timeout, timedelta) and timeout > timedelta(0)


def client_tool(
    name: str, description: str, parameters: JSONObject | None = None, *, timeout: timedelta | None = None
) -> Tool:
    """A tool that the client runs: the model sees it like any other, and a durable run waits for its result.

    Args:
        name: what the model calls it.
        description: for the model.
        parameters: a JSON Schema of type object; by default the tool takes none.
        timeout: how long the result is waited for; then the model is told that none came. None means for ever.

    Raises:
        InvalidInput: as `Tool`.
    """
    schema: JSONObject = {"type": "object", "properties": {}} if parameters is None else parameters
    return Tool(name, description, schema, run=None, timeout=timeout)


def effect_name(tool: Tool) -> str:
    """The tool's effect as rows and specs hold it; "client" if the client runs it, "remote" if an agent elsewhere does."""
    return CLIENT if tool.run is None else tool.effect_word or tool.effect.value


def approval_name(tool: Tool) -> str:
    """Who approves its calls, as specs hold it: "human", "predicate", or "" for nobody."""
    if tool.approval is None:
        return ""
    return HUMAN if tool.approval == HUMAN else "predicate"
