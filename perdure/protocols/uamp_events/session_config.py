"""A session and its configuration. Source: UAMP 1.0, sections 8.1, 8.3, 8.6 and 8.8."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from perdure.protocols.uamp_events.wire import WireModel
from perdure.upp.json_value import JSONObject


class ToolFunction(WireModel):
    """A function that a model may call; `parameters` is a JSON Schema."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: JSONObject | None = None
    strict: bool | None = None


class ToolDefinition(WireModel):
    """A tool that the client runs."""

    type: Literal["function"]
    function: ToolFunction

    def declared(self) -> JSONObject:
        """The tool as a run's option `client_tools` has it."""
        parameters = self.function.parameters or {"type": "object", "properties": {}}
        return {
            "name": self.function.name,
            "description": self.function.description or "",
            "parameters": parameters,
        }


class VoiceConfig(WireModel):
    """The voice that a session asks for."""

    provider: str | None = None
    voice_id: str | None = None


class TurnDetection(WireModel):
    """How the end of a spoken turn is found."""

    type: str
    threshold: float | None = None
    silence_duration_ms: int | float | None = None


class JSONSchemaFormat(WireModel):
    """The schema of a structured answer."""

    name: str | None = None
    description: str | None = None
    schema_: JSONObject = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(WireModel):
    """The form that the answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JSONSchemaFormat | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("type 'json_schema' needs 'json_schema' with a 'schema'")
        return self


class SessionConfig(WireModel):
    """What a client asks of a session.

    Attributes:
        modalities: "text", "audio", "image", "video", "file" or custom.
        instructions: they stand below the agent's own system prompt.
        extensions: by provider.
        id: of a session to resume; an addition.
        last_event_id: with `id`, of the last event that the client has had; likewise.
    """

    modalities: list[str]
    instructions: str | None = None
    tools: list[ToolDefinition] | None = None
    voice: VoiceConfig | None = None
    input_audio_format: str | None = None
    output_audio_format: str | None = None
    turn_detection: TurnDetection | None = None
    response_format: ResponseFormat | None = None
    extensions: JSONObject | None = None
    id: str | None = None
    last_event_id: str | None = None


class SessionChange(WireModel):
    """The configuration that a session.update changes; an addition that clients use."""

    modalities: list[str] | None = None
    instructions: str | None = None
    payment_token: str | None = Field(default=None, repr=False)


class Session(WireModel):
    """A session as the server tells of it; `created_at` is seconds since the epoch."""

    id: str
    created_at: int
    config: SessionConfig
    status: Literal["active", "closed"] = "active"
