"""Chat Completions and Models over HTTP. Each path is there with and without `/v1`, and for one agent below `/agents/NAME`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from perdure.api.access import Caller, Reader, Runner
from perdure.api.answers import Answer
from perdure.api.authentication import ANONYMOUS
from perdure.api.bodies import NEVER_JSON
from perdure.api.doors.openai.completion import Completion
from perdure.api.doors.openai.desk import Asked, open_part
from perdure.api.doors.openai.errors import refusal
from perdure.api.doors.openai.reply import Reply, Sign, StreamReply, WholeReply
from perdure.api.doors.openai.shapes import ChatBody, OpenAICompletion, OpenAIModel, OpenAIModels
from perdure.api.doors.uaip_shapes import body_of
from perdure.api.models import Mode
from perdure.api.parameters import Key
from perdure.api.payments import Paying
from perdure.errors import UnknownAgent
from perdure.protocols.openai_chat.completion import model_body
from perdure.protocols.openai_chat.faults import ChatFault
from perdure.protocols.openai_chat.request import ChatRequest, messages_sha256, read_chat_request
from perdure.protocols.uamp_events.content_items import TextItem
from perdure.store.agents import AgentRow, find_agent
from perdure.store.pages import list_agents
from perdure.uap.payments import SubmittedPayment

SESSION_HEADER = "X-Session-Id"
RUN_HEADER = "X-Run-Id"
COMPLETIONS, MODELS = "/v1/chat/completions", "/v1/models"

router = APIRouter(tags=["openai"])

SessionHeader = Annotated[
    str | None,
    Header(alias=SESSION_HEADER, description="A session to go on in. Without it the run has one of its own."),
]
_COMPLETED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The completion; with `stream` its chunks, and `data: [DONE]` behind the last.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "headers": {
            SESSION_HEADER: {"description": "The session's id.", "schema": {"type": "string"}},
            RUN_HEADER: {"description": "The run's id.", "schema": {"type": "string"}},
        },
    }
}


@router.post("/agents/{agent}/v1/chat/completions", include_in_schema=False)
@router.post("/agents/{agent}/chat/completions", include_in_schema=False)
async def complete_by(
    caller: Runner, request: Request, agent: str, payment: Paying, key: Key = None, session: SessionHeader = None
) -> Response:
    """Have one agent answer, whatever `model` says."""
    return await _answer(caller, request, key, session, payment, agent)


@router.post("/chat/completions", include_in_schema=False)
@router.post(
    COMPLETIONS,
    operation_id="createChatCompletion",
    response_model=OpenAICompletion,
    responses=_COMPLETED,
    openapi_extra=body_of(ChatBody),
)
async def complete(
    caller: Runner, request: Request, payment: Paying, key: Key = None, session: SessionHeader = None
) -> Response:
    """Have an agent answer. When the answer begins the run is stored, and goes on whatever happens to the client.

    Tools of the client's end the completion with `tool_calls`; the request with their results goes on with the same run.
    With an Idempotency-Key, again is the same run.
    """
    return await _answer(caller, request, key, session, payment, None)


@router.get("/agents/{agent}/models", include_in_schema=False)
@router.get("/agents/{agent}/v1/models", include_in_schema=False)
async def models_of(caller: Reader, agent: str) -> Answer:
    """List one agent, as a model."""
    row = await find_agent(caller.database, caller.tenant, agent)
    return Answer({"object": "list", "data": [_model(row)]})


@router.get("/agents/{agent}/models/{model}", include_in_schema=False)
@router.get("/agents/{agent}/v1/models/{model}", include_in_schema=False)
async def model_of(caller: Reader, agent: str, model: str) -> Answer:
    """Show one agent, as a model, if it is the one that is asked for."""
    row = await find_agent(caller.database, caller.tenant, agent)
    if model != agent:
        raise UnknownAgent(f"agent {agent!r} has no model {model[:60]!r}; its only one has its name")
    return Answer(_model(row))


@router.get("/models", include_in_schema=False)
@router.get(MODELS, operation_id="listModels", response_model=OpenAIModels)
async def models(caller: Reader) -> Answer:
    """List the agents, as models."""
    rows = await list_agents(caller.database, caller.tenant)
    return Answer({"object": "list", "data": [_model(row) for row in rows]})


@router.get("/models/{model}", include_in_schema=False)
@router.get(f"{MODELS}/{{model}}", operation_id="getModel", response_model=OpenAIModel)
async def model(caller: Reader, model: str) -> Answer:
    """Show an agent, as a model."""
    return Answer(_model(await find_agent(caller.database, caller.tenant, model)))


async def _answer(
    caller: Caller,
    request: Request,
    key: str | None,
    session: str | None,
    payment: SubmittedPayment | None,
    agent: str | None,
) -> Response:
    try:
        body = await _body(request)
        read, hashed = read_chat_request(body), messages_sha256(body)
        opened = await open_part(caller, Asked(read, agent, key, session, payment))
    except ChatFault as fault:
        return refusal(fault)
    completion = Completion(
        caller.database, caller.payments, opened.part, read.model, created=opened.created, streams=read.streams
    )
    return _reply(caller, read, completion, _signer(caller, opened.agent, hashed))


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "").lower().startswith(NEVER_JSON):
        raise ChatFault("send the body as application/json", code="invalid_json")
    return await request.body()


def _reply(caller: Caller, request: ChatRequest, completion: Completion, sign: Sign) -> Reply:
    backend, part = caller.backend, completion.part
    headers = {SESSION_HEADER: part.handle.session, RUN_HEADER: part.handle.id, "X-Request-Id": part.id}
    if request.streams:
        backend.metrics.runs.labels(Mode.STREAM.value).inc()
        return StreamReply(backend, completion, sign, headers, usage=request.wants_usage)
    backend.metrics.runs.labels(Mode.WAIT.value).inc()
    return WholeReply(backend, completion, sign, headers)


def _signer(caller: Caller, agent: str, request: str) -> Sign:
    audience = None if caller.principal.name == ANONYMOUS else caller.principal.name

    async def sign(told: Completion) -> str | None:
        return await caller.backend.signer.sign(
            [TextItem(text=told.text)],
            response_id=told.part.id,
            request=request,
            issuer=agent,
            audience=audience,
            issued_at=told.ended_at,
        )

    return sign


def _model(row: AgentRow) -> Any:
    seen = row.seen_at
    return model_body(row.name, created=0 if seen is None else int(seen.timestamp()))
