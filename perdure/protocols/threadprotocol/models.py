"""A thread, its agents and its actions, as ThreadProtocol 1.0.0 spells them.

Models check one object alone; what objects are to each other is `rules`'s part. Members that the specification does not
name are kept. Source: ThreadProtocol 1.0.0, Schema Structure.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, SkipValidation, StrictInt, StrictStr

from perdure.protocols.threadprotocol.content import MessageContent, check_base64, check_content
from perdure.protocols.threadprotocol.moments import normal_moment
from perdure.upp.json_value import JSONObject, JSONValue

VERSION = "1.0.0"


def is_uuid(text: str) -> bool:
    """Whether the text is a UUID with hyphens, of any version and in either case."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _uuid(text: str) -> str:
    if not is_uuid(text):
        raise ValueError(f"{text!r:.80} is not a UUID")
    return text


Moment = Annotated[StrictStr, AfterValidator(normal_moment)]
Uuid = Annotated[StrictStr, AfterValidator(_uuid)]
Name = Annotated[StrictStr, Field(min_length=1)]
Content = Annotated[MessageContent, PlainValidator(check_content)]
JSON = Annotated[JSONValue, SkipValidation]  # it comes from JSON; a union of types would only blur what is wrong
Count = Annotated[StrictInt, Field(ge=0)]


class Record(BaseModel, frozen=True):
    """A JSON object of the wire, whose unknown members stay."""

    model_config = ConfigDict(extra="allow")

    def to_json(self) -> JSONObject:
        """Its members in the specification's order, then the unknown ones; optional members without a value are absent."""
        fields = type(self).model_fields
        known = {name: cast(object, getattr(self, name)) for name in fields}
        present = {name: value for name, value in known.items() if value is not None or fields[name].is_required()}
        return {name: _json(value) for name, value in present.items()} | self.extensions

    @property
    def extensions(self) -> JSONObject:
        """The members that the specification does not name."""
        return cast(JSONObject, self.model_extra or {})


class AgentConfig(Record, frozen=True):
    """An agent of the thread's registry. Source: ThreadProtocol 1.0.0, Agent Configuration."""

    agent_id: Name
    agent_identifier: Name
    agent_name: Name
    created_at: Moment
    config_ref: StrictStr | None = None


class Action(Record, frozen=True):
    """What all actions have."""

    action_type: StrictStr
    action_id: Name | None = None
    timestamp: Moment
    sequence: Annotated[StrictInt, Field(ge=1)]


class Attachment(Record, frozen=True):
    """A file that a user attached."""

    name: StrictStr
    url: StrictStr | None = None
    data: Annotated[StrictStr, AfterValidator(check_base64)] | None = None
    media_type: Name
    size_bytes: Count | None = None


class Usage(Record, frozen=True):
    """The tokens of one model response."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count | None = None


class ThinkingUsage(Record, frozen=True):
    """The tokens of thinking, where the provider counts them apart."""

    thinking_tokens: Count | None = None


class UserMessageAction(Action, frozen=True):
    """What the user said."""

    action_type: Literal["user_message"]
    content: Content
    attachments: list[Attachment] | None = None


class AssistantMessageAction(Action, frozen=True):
    """What an agent said in one model response."""

    action_type: Literal["assistant_message"]
    agent_id: Name
    content: Content
    finish_reason: Literal["stop", "tool_call", "length", "content_filter"] | None = None
    usage: Usage | None = None


class ThinkingAction(Action, frozen=True):
    """An agent's thinking; the signature is opaque and stays as it is, character by character."""

    action_type: Literal["thinking"]
    agent_id: Name
    content: StrictStr | None = None
    signature: StrictStr | None = Field(default=None, repr=False)
    provider_name: Name
    thinking_id: StrictStr | None = None
    usage: ThinkingUsage | None = None


class ToolCallAction(Action, frozen=True):
    """A call that an agent asked for."""

    action_type: Literal["tool_call"]
    agent_id: Name
    tool_name: StrictStr
    tool_call_id: Name
    args: JSON


class ToolReturnAction(Action, frozen=True):
    """What came of a call. The agent is the call's."""

    action_type: Literal["tool_return"]
    tool_call_id: Name
    tool_name: StrictStr
    status: Literal["success", "error", "validation_error"]
    content: JSON


class SystemAction(Action, frozen=True):
    """An event of some system. Its type begins with `system.`; its data is nobody's but that system's."""

    action_type: Annotated[StrictStr, Field(pattern=r"^system\.[A-Za-z0-9_.\-]+$")]
    data: JSON


AnyAction: TypeAlias = (
    UserMessageAction | AssistantMessageAction | ThinkingAction | ToolCallAction | ToolReturnAction | SystemAction
)

CORE: dict[str, type[AnyAction]] = {
    "user_message": UserMessageAction,
    "assistant_message": AssistantMessageAction,
    "thinking": ThinkingAction,
    "tool_call": ToolCallAction,
    "tool_return": ToolReturnAction,
}
"""The universal actions, by type."""


class ThreadHead(Record, frozen=True):
    """A thread without its actions."""

    version: Literal["1.0.0"]
    thread_id: Uuid
    parent_thread_id: Uuid | None = None
    created_at: Moment
    updated_at: Moment
    title: StrictStr
    metadata: dict[str, JSON] | None = None
    agents: dict[str, AgentConfig]


class Thread(ThreadHead, frozen=True):
    """One thread. Source: ThreadProtocol 1.0.0, Thread."""

    actions: list[AnyAction]


def action_model(action_type: object) -> type[AnyAction] | None:
    """The model of a type of action, or None if there is no such type."""
    if not isinstance(action_type, str):
        return None
    return SystemAction if action_type.startswith("system.") else CORE.get(action_type)


def _json(value: object) -> JSONValue:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, list):
        return [_json(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _json(item) for name, item in cast("dict[str, object]", value).items()}
    return cast(JSONValue, value)
