"""What each vendor receives: media, the choice of tools, and the form of the answer, in its own words."""

from __future__ import annotations

import functools
import operator
from typing import Any

import pytest

from perdure.upp.content import DocumentBlock, ImageBlock, UserContent
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import Base64Source
from perdure.upp.messages import UserMessage
from perdure.upp.tools import Tool
from tests.clients.adapters import ADAPTERS, Adapter
from tests.clients.vendor_server import VendorServer

IMAGE = ImageBlock(Base64Source("AQI="), "image/png")
PAPER = DocumentBlock(Base64Source("JVBE"), "application/pdf", "paper.pdf")
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {}}, str)
SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"capital": {"type": "string"}},
    "required": ["capital"],
    "additionalProperties": False,
}
COMPLETIONS, RESPONSES = ("completions", "openrouter completions"), ("responses", "openrouter responses")


def at(body: Any, *path: str | int) -> Any:
    """What stands at a path in a body; None if there is nothing."""
    try:
        return functools.reduce(operator.getitem, path, body)
    except (KeyError, IndexError):
        return None


def for_all(names: tuple[str, ...], *values: Any) -> list[Any]:
    return [pytest.param(ADAPTERS[name], *values, id=f"{name} {str(values[0])[:40]}") for name in names]


async def refusal(adapter: Adapter, vendor: VendorServer, *content: UserContent, **fields: Any) -> UPPError:
    with pytest.raises(UPPError) as caught:
        await adapter.sent(vendor, [UserMessage([*content])] if content else (), **fields)
    assert vendor.received == []
    return caught.value


@pytest.mark.parametrize(
    ("adapter", "block", "path", "sent"),
    [
        *for_all(
            ("anthropic",),
            IMAGE,
            ("messages", 0, "content", 0),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AQI="}},
        ),
        *for_all(
            ("anthropic",),
            PAPER,
            ("messages", 0, "content", 0),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                "title": "paper.pdf",
            },
        ),
        *for_all(
            COMPLETIONS,
            IMAGE,
            ("messages", 0, "content", 0),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQI="}},
        ),
        *for_all(
            COMPLETIONS,
            PAPER,
            ("messages", 0, "content", 0),
            {"type": "file", "file": {"filename": "paper.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
        ),
        *for_all(
            RESPONSES,
            IMAGE,
            ("input", 0, "content", 0),
            {"type": "input_image", "image_url": "data:image/png;base64,AQI=", "detail": "auto"},
        ),
        *for_all(
            RESPONSES,
            PAPER,
            ("input", 0, "content", 0),
            {"type": "input_file", "filename": "paper.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        ),
        *for_all(
            ("google",),
            IMAGE,
            ("contents", 0, "parts", 0),
            {"inlineData": {"mimeType": "image/png", "data": "AQI="}},
        ),
        *for_all(
            ("google",),
            PAPER,
            ("contents", 0, "parts", -1),
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}},
        ),
        *for_all(("ollama",), IMAGE, ("messages", 0, "images", 0), "AQI="),
    ],
)
async def test_media_are_sent(
    vendor: VendorServer, adapter: Adapter, block: UserContent, path: tuple[str | int, ...], sent: Any
) -> None:
    assert at(await adapter.sent(vendor, [UserMessage([block])]), *path) == sent


async def test_a_document_that_ollama_cannot_take_is_not_sent(vendor: VendorServer) -> None:
    error = await refusal(ADAPTERS["ollama"], vendor, PAPER)
    assert (error.code, error.provider) == (ErrorCode.INVALID_REQUEST, "ollama")


CHOICES: list[tuple[tuple[str, ...], tuple[str, ...], list[Any]]] = [
    (("anthropic",), ("tool_choice",), [{"type": kind} for kind in ("auto", "none", "any")]),
    (COMPLETIONS, ("tool_choice",), ["auto", "none", "required"]),
    (RESPONSES, ("tool_choice",), ["auto", "none", "required"]),
    (("google",), ("toolConfig", "functionCallingConfig"), [{"mode": mode} for mode in ("AUTO", "NONE", "ANY")]),
]
NAMED: list[tuple[tuple[str, ...], tuple[str, ...], Any]] = [
    (("anthropic",), ("tool_choice",), {"type": "tool", "name": "look"}),
    (COMPLETIONS, ("tool_choice",), {"type": "function", "function": {"name": "look"}}),
    (RESPONSES, ("tool_choice",), {"type": "function", "name": "look"}),
    (("google",), ("toolConfig", "functionCallingConfig"), {"mode": "ANY", "allowedFunctionNames": ["look"]}),
]


@pytest.mark.parametrize(
    ("adapter", "choice", "path", "sent"),
    [
        *(
            case
            for names, path, words in CHOICES
            for choice, word in zip(("auto", "none", "required"), words, strict=True)
            for case in for_all(names, choice, path, word)
        ),
        *(case for names, path, sent in NAMED for case in for_all(names, {"name": "look"}, path, sent)),
        *for_all(("ollama",), "auto", ("tools", 0, "function", "name"), "look"),
        *for_all(("ollama",), "none", ("tools",), None),
    ],
)
async def test_the_choice_of_tools_is_sent(
    vendor: VendorServer, adapter: Adapter, choice: Any, path: tuple[str | int, ...], sent: Any
) -> None:
    body = await adapter.sent(vendor, tools=[LOOK], tool_choice=choice)
    assert at(body, *path) == sent


@pytest.mark.parametrize("choice", ["required", {"name": "look"}])
async def test_a_choice_that_ollama_cannot_make_is_not_sent(vendor: VendorServer, choice: Any) -> None:
    error = await refusal(ADAPTERS["ollama"], vendor, tools=[LOOK], tool_choice=choice)
    assert error.code == ErrorCode.INVALID_REQUEST


NAMED_SCHEMA = {"name": "answer", "schema": SCHEMA, "strict": True}


@pytest.mark.parametrize(
    ("adapter", "kind", "path", "sent"),
    [
        *for_all(("anthropic",), "text", ("output_config",), None),
        *for_all(("anthropic",), "json_schema", ("output_config", "format"), {"type": "json_schema", "schema": SCHEMA}),
        *for_all(COMPLETIONS, "text", ("response_format",), {"type": "text"}),
        *for_all(COMPLETIONS, "json_object", ("response_format",), {"type": "json_object"}),
        *for_all(
            COMPLETIONS,
            "json_schema",
            ("response_format",),
            {"type": "json_schema", "json_schema": NAMED_SCHEMA},
        ),
        *for_all(RESPONSES, "text", ("text", "format"), {"type": "text"}),
        *for_all(RESPONSES, "json_object", ("text", "format"), {"type": "json_object"}),
        *for_all(RESPONSES, "json_schema", ("text", "format"), {"type": "json_schema", **NAMED_SCHEMA}),
        *for_all(("google",), "text", ("generationConfig",), None),
        *for_all(("google",), "json_object", ("generationConfig",), {"responseMimeType": "application/json"}),
        *for_all(
            ("google",),
            "json_schema",
            ("generationConfig",),
            {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
        ),
        *for_all(("ollama",), "text", ("format",), None),
        *for_all(("ollama",), "json_object", ("format",), "json"),
        *for_all(("ollama",), "json_schema", ("format",), SCHEMA),
    ],
)
async def test_the_form_of_the_answer_is_sent(
    vendor: VendorServer, adapter: Adapter, kind: str, path: tuple[str | int, ...], sent: Any
) -> None:
    wanted: JSONObject = {"type": kind}
    if kind == "json_schema":
        wanted |= {"name": "answer", "schema": SCHEMA}
    assert at(await adapter.sent(vendor, response_format=wanted), *path) == sent


async def test_a_form_that_anthropic_does_not_have_is_not_sent(vendor: VendorServer) -> None:
    error = await refusal(ADAPTERS["anthropic"], vendor, response_format={"type": "json_object"})
    assert error.code == ErrorCode.INVALID_REQUEST
