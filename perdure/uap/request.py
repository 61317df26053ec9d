"""What is sent to the model: the agent's words, the run's options, the conversation. One place for both hosts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from perdure.uap.agent import Agent
from perdure.uap.agent_checks import check_names
from perdure.uap.content_refs import references
from perdure.uap.observations import observations
from perdure.uap.options import RunOptions
from perdure.uap.scaffold import PROMPT, prompt_message, scaffold_of
from perdure.uap.shown_media import media_to_show
from perdure.uap.stage_place import as_told
from perdure.uap.strategy import PLAIN, Ask
from perdure.uap.structure import structure_of
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.tools import Tool


def build_request(
    agent: Agent,
    options: RunOptions,
    messages: Sequence[Message],
    ask: Ask = PLAIN,
    stage: Sequence[Tool] = (),
    before: Sequence[Message] = (),
) -> LLMRequest:
    """The model request of one step.

    Args:
        agent: whose model is asked.
        options: the run's; instructions come below the agent's system prompt, params over its params.
        messages: the whole conversation, oldest first. A strategy's earlier prompts are left out of it.
        ask: how this call differs from a plain one.
        stage: the tools of the stage where the run is, if its agent walks a workflow.
        before: what stands before all that and `is_settled`; `messages` begin with an input then.

    Raises:
        InvalidInput: a client's tool has no usable name or schema, or another tool's name.
        UPPError: INVALID_REQUEST if the model's provider would refuse a client's tool.
    """
    system = "\n\n".join(part for part in (agent.system, options.instructions) if part)
    params: JSONObject = {**agent.params, **options.params}
    client_tools = [_client_tool(tool) for tool in options.client_tools]
    _check_client_tools(agent, client_tools)
    tools = [*stage, *agent.resolved, *client_tools]
    if ask.stages:
        messages = as_told(messages, own_names(agent, options))
    return LLMRequest(
        messages=_said(before, [*[item for item in messages if scaffold_of(item) != PROMPT], *_told(messages, ask)]),
        system=system or None,
        params=params,
        tools=tools,
        tool_choice=_tool_choice(options, ask, messages, tools),
        structure=_structure(agent, options, ask),
        response_format=None if ask.structure else options.response_format,
        modalities=options.modalities,
        config=agent.reach,
    )


def is_settled(messages: Sequence[Message]) -> bool:
    """Whether a model is sent these as they are, whatever follows them: nothing in them is left out, or is to be filled in."""
    sent = all(scaffold_of(item) != PROMPT and _is_said(item) for item in messages)
    return sent and not references(messages) and not media_to_show(messages)


def _said(before: Sequence[Message], messages: Sequence[Message]) -> list[Message]:
    """The messages without inputs that have no content: runs may be asked for where nobody says anything.

    One stays where it is all that there is.
    """
    said = [*before, *[item for item in messages if _is_said(item)]]
    return said or list(messages)


def _is_said(message: Message) -> bool:
    return not isinstance(message, UserMessage) or bool(message.content)


def _structure(agent: Agent, options: RunOptions, ask: Ask) -> JSONObject | None:
    """The schema of this call: the strategy's own, else the agent's wherever the answer is not the strategy's alone.

    A model that cannot be held to the strategy's is told the form by the strategy's prompt alone.
    """
    if ask.structure is None:
        return None if ask.scaffold else structure_of(agent, options)
    return ask.structure if agent.bind().capabilities.structured_output else None


def _tool_choice(
    options: RunOptions, ask: Ask, messages: Sequence[Message], tools: Sequence[Tool]
) -> str | JSONObject | None:
    """The run's choice, unless this call may use no tool. What is forced was done with the first results."""
    if not ask.tools:
        return "none" if tools else None
    forced = options.tool_choice not in (None, "none")
    return "auto" if forced and ask.prompt and _has_results(messages) else options.tool_choice


def _has_results(messages: Sequence[Message]) -> bool:
    """Whether there are results since the last input."""
    since = takewhile(lambda message: not _is_input(message), reversed(messages))
    return any(isinstance(message, ToolResultMessage) for message in since)


def _is_input(message: Message) -> bool:
    return isinstance(message, UserMessage) and not scaffold_of(message)


def _told(messages: Sequence[Message], ask: Ask) -> list[Message]:
    """What is said to the model once: the last results in another form, and the strategy's prompt."""
    told: list[Message] = []
    observed = observations(messages, ask.observe) if ask.observe else ""
    if observed:
        told.append(prompt_message(observed))
    if ask.prompt:
        told.append(prompt_message(ask.prompt))
    return told


def own_names(agent: Agent, options: RunOptions) -> list[str]:
    """The names of the tools that are no stage's: the agent's and the client's."""
    return [*(tool.name for tool in agent.resolved), *(str(tool["name"]) for tool in options.client_tools)]


def _check_client_tools(agent: Agent, client_tools: Sequence[Tool]) -> None:
    """The agent's own were looked at when it was defined."""
    if client_tools:
        for tools in agent.shown():
            check_names([*tools, *client_tools])
        agent.bind().check(client_tools, None)


def _client_tool(declared: JSONObject) -> Tool:
    """A tool that the client runs: the model sees it like any other, no worker has a function for it."""
    parameters = declared.get("parameters")
    return Tool(
        name=str(declared["name"]),
        description=str(declared.get("description", "")),
        parameters=parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}},
        run=None,
    )
