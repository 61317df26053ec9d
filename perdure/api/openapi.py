"""The OpenAPI document: every operation with the problems that it may answer, as RFC 9457 has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from perdure.api.problems import MEDIA_TYPE
from perdure.api.shapes import Problem

_MEANINGS = {
    400: "The request is malformed.",
    401: "The caller is not known.",
    403: "The caller lacks the scope.",
    404: "There is no such thing, or it is another tenant's.",
    409: "It conflicts with what is there.",
    410: "The session is being deleted.",
    413: "The body is too large.",
    415: "The body is of a type that is not taken.",
    421: "The server does not answer for this host.",
    422: "A value cannot be used; `errors` has the pointers.",
    429: "Too many requests, or the queue is full.",
    503: "A server that is needed does not answer; try again.",
}
_SCHEMA = "#/components/schemas/Problem"
_FASTAPIS = "HTTPValidationError"
"""What FastAPI says that an operation answers which declares no 422."""

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": meaning,
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": _SCHEMA},
                "example": {
                    "type": "urn:perdure:problem:unknown_session",
                    "title": "Not Found",
                    "status": 404,
                    "code": "unknown_session",
                    "detail": "no session 7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11",
                },
            }
        }
        if status == 404
        else {MEDIA_TYPE: {"schema": {"$ref": _SCHEMA}}},
    }
    for status, meaning in _MEANINGS.items()
}
"""What any route may answer besides its own."""

PAYMENT_NEEDED: dict[int | str, dict[str, Any]] = {
    402: {
        "description": "The payment is refused: `reason` says why, `accepts` how it can be paid.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": _SCHEMA}}},
    }
}
"""What a route that takes a payment may answer as well."""


def describe(app: FastAPI, bodies: Sequence[type[BaseModel]] = ()) -> None:
    """Have an app give the document with the problems' shape in it.

    Args:
        app: of FastAPI.
        bodies: shapes of those that routes read by themselves.
    """

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                openapi_version="3.1.0",
                routes=app.routes,
                tags=app.openapi_tags,
            )
            schemas = cast("dict[str, Any]", found.setdefault("components", {}).setdefault("schemas", {}))
            for name in (_FASTAPIS, "ValidationError"):
                schemas.pop(name, None)
            _drop_undeclared(found)
            for model in (Problem, *bodies):
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas.update({**schema.pop("$defs", {}), model.__name__: schema})
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _drop_undeclared(document: dict[str, Any]) -> None:
    """Leave out an answer that FastAPI has added: a door without 422 tells such a fault in its own words, with another status."""
    added = {"$ref": f"#/components/schemas/{_FASTAPIS}"}
    for operations in document["paths"].values():
        for operation in operations.values():
            content = operation["responses"].get("422", {}).get("content", {})
            if any(media.get("schema") == added for media in content.values()):
                del operation["responses"]["422"]
