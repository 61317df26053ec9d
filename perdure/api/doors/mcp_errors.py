"""What is wrong with a request to an MCP endpoint, as JSON-RPC tells it. Source: MCP, Transports, Streamable HTTP."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from perdure.api.answers import Answer
from perdure.api.doors.mcp import PREFIX
from perdure.api.problems import Fault
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets

_INVALID_REQUEST = -32600
_INTERNAL_ERROR = -32603


def serves(path: str) -> bool:
    """Whether a path is an MCP endpoint's."""
    return path.startswith(PREFIX)


def error(fault: Fault) -> JSONResponse:
    """A response that tells a fault, without secrets that this process knows."""
    code = _INTERNAL_ERROR if fault.status >= 500 else _INVALID_REQUEST
    told: JSONObject = {"code": code, "message": fault.detail, "data": {"code": fault.code, **fault.extra}}
    body: JSONObject = {"jsonrpc": "2.0", "id": None, "error": told}
    return Answer(known_secrets.json(body), fault.status, fault.headers)
