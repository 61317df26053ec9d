"""A model's answer as it is stored: its row, the prompt before it, the calls and events that it opens."""

from __future__ import annotations

from temporalio import activity

from perdure.activities.contracts import GenerateInput
from perdure.store.answers import AnswerRow
from perdure.uap.agent import Agent
from perdure.uap.events import action_data, uap_event, upp_event
from perdure.uap.options import RunOptions
from perdure.uap.plan_answer import plan_from_text
from perdure.uap.scaffold import REASON, as_scaffold, prompt_message
from perdure.uap.stage_place import StagePlace, qualified
from perdure.uap.strategy import PLAIN, Ask
from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads, sha256_hex
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMResponse
from perdure.upp.stream import tool_execution_start
from perdure.upp.timestamp import parse_timestamp
from perdure.upp.tools import effect_name


def ask_of(call: GenerateInput) -> Ask:
    """What the strategy asked for."""
    given = call.ask
    if given is None:
        return PLAIN
    return Ask(given.scaffold, given.prompt, given.observe, given.tools, given.structure, given.stages)


def as_asked(message: AssistantMessage, call: GenerateInput) -> AssistantMessage:
    """The answer as it stands in the conversation."""
    return as_scaffold(message, call.ask.scaffold) if call.ask is not None and call.ask.scaffold else message


def data_of(message: AssistantMessage, call: GenerateInput) -> JSONValue:
    """What a structured answer holds: its text as JSON, or the first object in its text; None if it holds none."""
    if call.ask is None or call.ask.structure is None:
        return None
    try:
        return loads(message.text.encode("utf-8", "surrogatepass"))
    except ValueError:
        pass
    try:
        return plan_from_text(message.text)
    except UPPError:
        return None


def answer_row(
    agent: Agent, options: RunOptions, call: GenerateInput, response: LLMResponse, stage: StagePlace | None = None
) -> AnswerRow:
    """The row of an answer.

    Args:
        agent: who gave it.
        options: of the run.
        call: what it answers.
        response: the answer.
        stage: where its agent was in the workflow that it walks.
    """
    body = dumps(response.message.to_json())
    prompt = prompt_body(call)
    usage: JSONObject = {name: value for name, value in response.usage.to_json().items() if name != "cycles" and value}
    return AnswerRow(
        id=call.message,
        node=call.node,
        position=call.position,
        step=call.step,
        sha256=sha256_hex(body),
        body=body,
        usage=usage,
        stop=response.stop_reason,
        results_id=call.results,
        calls=_calls(agent, options, response.message, stage),
        scaffold=bool(call.ask and call.ask.scaffold),
        prompt=None if prompt is None or call.ask is None else {"id": call.ask.prompt_id, "sha256": sha256_hex(prompt)},
        prompt_body=prompt,
    )


def prompt_body(call: GenerateInput) -> bytes | None:
    """The stored body of the prompt, if there is one."""
    if call.ask is None or not call.ask.prompt:
        return None
    prompt = prompt_message(call.ask.prompt, id=call.ask.prompt_id, timestamp=parse_timestamp(call.ask.at))
    return dumps(prompt.to_json())


def argument_hashes(message: AssistantMessage) -> list[str]:
    """sha256 of each tool call's arguments, in order."""
    return [sha256_hex(dumps(call.arguments)) for call in message.tool_calls or []]


def opening_events(call: GenerateInput, message: AssistantMessage) -> list[JSONObject]:
    """What viewers learn with the answer: its reasoning; or the action, and the start of each of its tool calls."""
    if call.ask is not None and call.ask.scaffold == REASON:
        return [uap_event("reasoning", call.step, {"text": message.text})]
    if not message.tool_calls:
        return []
    return [uap_event("action", call.step, action_data(message)), *starting_events(call, message)]


def starting_events(call: GenerateInput, message: AssistantMessage) -> list[JSONObject]:
    """The start of each tool call of an answer: which tool it is, and nothing of what the model wrote."""
    now = int(message.timestamp.timestamp() * 1000)
    events: list[JSONObject] = []
    for index, tool_call in enumerate(message.tool_calls or ()):
        event = tool_execution_start(tool_call.tool_call_id, tool_call.tool_name, now, index)
        events.append(upp_event(event, step=call.step, attempt=activity.info().attempt, message=call.message))
    return events


def _calls(agent: Agent, options: RunOptions, message: AssistantMessage, stage: StagePlace | None) -> list[JSONObject]:
    client_side = {str(tool["name"]) for tool in options.client_tools}
    calls: list[JSONObject] = []
    for tool_call, sha256 in zip(message.tool_calls or [], argument_hashes(message), strict=True):
        tool = agent.tool(tool_call.tool_name)
        if tool is None and stage is not None:
            tool = agent.tool(qualified(stage.stage, tool_call.tool_name))
        effect = effect_name(tool) if tool else "client" if tool_call.tool_name in client_side else "none"
        calls.append(
            {
                "call_id": tool_call.tool_call_id,
                "tool": tool_call.tool_name,
                "args_sha256": sha256,
                "effect": effect,
            }
        )
    return calls
