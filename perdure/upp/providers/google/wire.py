"""What of Gemini's answers is read, as it stands in the Gemini API, v1beta. Fields that nobody asks for are ignored."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.providers._shape import read_shape
from perdure.upp.providers.google.endpoint import PROVIDER


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class FunctionCall(_Wire):
    """A call that the model asks for; `id` is absent from older models' calls."""

    id: str | None = None
    name: str
    args: JSONValue = None


class Blob(_Wire):
    """Media; `data` is base64."""

    mimeType: str = ""  # noqa: N815  # the wire's names, here and below
    data: str = ""


class ExecutableCode(_Wire):
    """Code that the model wrote and Google ran."""

    language: str | None = None
    code: str = ""


class CodeExecutionResult(_Wire):
    """What the code printed."""

    output: str | None = None


class Part(_Wire):
    """One part of a content; which field is set says what it is."""

    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None  # noqa: N815
    functionCall: FunctionCall | None = None  # noqa: N815
    inlineData: Blob | None = None  # noqa: N815
    executableCode: ExecutableCode | None = None  # noqa: N815
    codeExecutionResult: CodeExecutionResult | None = None  # noqa: N815


class Content(_Wire):
    """A content; its parts are kept as they came, because they go back as they came."""

    parts: list[JSONObject] | None = None


class Candidate(_Wire):
    """One answer, or a piece of it."""

    index: int | None = None
    content: Content | None = None
    finishReason: str | None = None  # noqa: N815
    finishMessage: str | None = None  # noqa: N815
    safetyRatings: JSONValue = None  # noqa: N815
    citationMetadata: JSONValue = None  # noqa: N815
    groundingMetadata: JSONValue = None  # noqa: N815
    urlContextMetadata: JSONValue = None  # noqa: N815


class PromptFeedback(_Wire):
    """Why the prompt got no answer."""

    blockReason: str | None = None  # noqa: N815
    blockReasonMessage: str | None = None  # noqa: N815


class Usage(_Wire):
    """Tokens. The prompt's include the cached ones; thoughts and tools' own prompts are counted apart."""

    promptTokenCount: int | None = None  # noqa: N815
    cachedContentTokenCount: int | None = None  # noqa: N815
    candidatesTokenCount: int | None = None  # noqa: N815
    thoughtsTokenCount: int | None = None  # noqa: N815
    toolUsePromptTokenCount: int | None = None  # noqa: N815
    totalTokenCount: int | None = None  # noqa: N815


class Answer(_Wire):
    """A GenerateContentResponse: the whole answer, or one chunk of a stream."""

    candidates: list[Candidate] | None = None
    promptFeedback: PromptFeedback | None = None  # noqa: N815
    usageMetadata: Usage | None = None  # noqa: N815
    modelVersion: str | None = None  # noqa: N815
    responseId: str | None = None  # noqa: N815


def read_answer(value: JSONObject) -> Answer:
    """Returns an answer or chunk. Raises UPPError INVALID_RESPONSE if it has another shape."""
    return read_shape(Answer, value, PROVIDER)


def read_part(value: JSONObject) -> Part:
    """Returns a part. Raises UPPError INVALID_RESPONSE if it has another shape."""
    return read_shape(Part, value, PROVIDER)
