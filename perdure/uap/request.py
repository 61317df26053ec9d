"""What is sent to the model: the agent's words, the run's options, the conversation. One place for both hosts."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.uap.agent import Agent, check_names
from perdure.uap.options import RunOptions
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message
from perdure.upp.provider import LLMRequest
from perdure.upp.tools import Tool


def build_request(agent: Agent, options: RunOptions, messages: Sequence[Message]) -> LLMRequest:
    """The model request of one step.

    Args:
        agent: whose model is asked.
        options: the run's; instructions come below the agent's system prompt, params over its params.
        messages: the whole conversation, oldest first.

    Raises:
        InvalidInput: a client's tool has no usable name or schema, or another tool's name.
        UPPError: INVALID_REQUEST if the model's provider would refuse a client's tool.
    """
    system = "\n\n".join(part for part in (agent.system, options.instructions) if part)
    params: JSONObject = {**agent.params, **options.params}
    client_tools = [_client_tool(tool) for tool in options.client_tools]
    _check_client_tools(agent, client_tools)
    return LLMRequest(
        messages=list(messages),
        system=system or None,
        params=params,
        tools=[*agent.tools, *client_tools],
        tool_choice=options.tool_choice,
        response_format=options.response_format,
        modalities=options.modalities,
        config=agent.config,
    )


def _check_client_tools(agent: Agent, client_tools: Sequence[Tool]) -> None:
    """The agent's own were looked at when it was defined."""
    if client_tools:
        check_names([*agent.tools, *client_tools])
        agent.model.bind().check(client_tools, None)


def _client_tool(declared: JSONObject) -> Tool:
    """A tool that the client runs: the model sees it like any other, no worker has a function for it."""
    parameters = declared.get("parameters")
    return Tool(
        name=str(declared["name"]),
        description=str(declared.get("description", "")),
        parameters=parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}},
        run=_not_here,
    )


def _not_here(*_: object) -> None:
    raise RuntimeError("a client-side tool has no function here")
