"""A thread as Pydantic AI's `ModelMessages` for one of its agents, in their JSON form.

Source: ThreadProtocol 1.0.0, ThreadProtocol → ModelMessages.
"""

from __future__ import annotations

from perdure.protocols.threadprotocol.content import parts_of
from perdure.protocols.threadprotocol.models import (
    AssistantMessageAction,
    ThinkingAction,
    Thread,
    ToolCallAction,
    ToolReturnAction,
    UserMessageAction,
)
from perdure.protocols.threadprotocol.pydantic_ai_content import write_binary, write_part, write_prompt
from perdure.protocols.threadprotocol.pydantic_ai_returns import write_return
from perdure.protocols.threadprotocol.viewing import (
    OwnAction,
    Prompt,
    Response,
    Results,
    View,
    by_provider,
    view_thread,
)
from perdure.upp.json_value import JSONObject, JSONValue, dumps, loads


def messages_for_agent(thread: Thread, agent_id: str, view: View | None = None) -> list[JSONObject]:
    """The messages that an agent goes on from, as `ModelMessagesTypeAdapter.validate_python` takes them.

    System prompts are not among them: they are the agent's configuration. System actions are left out.

    Args:
        thread: one that holds to the rules.
        agent_id: of the agent that reads it.
        view: what it is shown of the others; nothing of their tools if None.

    Raises:
        InvalidInput: the thread has no such agent.
    """
    messages: list[JSONObject] = []
    asked: list[JSONValue] = []
    for entry in view_thread(thread, agent_id, view):
        match entry:
            case Prompt():
                asked.append(_prompt(entry))
            case Results():
                asked += [_tool_return(action) for action in entry.returns]
            case Response():
                if asked:
                    messages.append({"kind": "request", "parts": asked})
                    asked = []
                messages.append(_response(entry))
    if asked:
        messages.append({"kind": "request", "parts": asked})
    return messages


def _prompt(prompt: Prompt) -> JSONObject:
    action = prompt.action
    attachments = (action.attachments or []) if isinstance(action, UserMessageAction) else []
    content = write_prompt(prompt.content, attachments)
    return {"part_kind": "user-prompt", "content": content, "timestamp": action.timestamp}


def _tool_return(action: ToolReturnAction) -> JSONObject:
    head: JSONObject = {"part_kind": "tool-return", "tool_name": action.tool_name, "tool_call_id": action.tool_call_id}
    return head | write_return(action) | {"timestamp": action.timestamp}


def _response(response: Response) -> JSONObject:
    said, first = response.message, response.actions[0]
    parts: list[JSONValue] = [part for action in response.actions for part in _parts(action)]
    message: JSONObject = {"kind": "response", "parts": parts, "timestamp": first.timestamp}
    if said is not None and said.finish_reason is not None:
        message["finish_reason"] = said.finish_reason
    if said is not None and said.usage is not None:
        message["usage"] = {"input_tokens": said.usage.input_tokens, "output_tokens": said.usage.output_tokens}
    return message


def _parts(action: OwnAction) -> list[JSONObject]:
    match action:
        case AssistantMessageAction():
            return [_said(part) for part in parts_of(action.content)]
        case ThinkingAction():
            return [_thinking(action)]
        case ToolCallAction():
            kind = "builtin-tool-call" if by_provider(action) else "tool-call"
            call: JSONObject = {"tool_name": action.tool_name, "args": _args(action.args)}
            return [{"part_kind": kind, "tool_call_id": action.tool_call_id} | call | _provider(action)]
        case ToolReturnAction():
            return [_tool_return(action) | {"part_kind": "builtin-tool-return"} | _provider(action)]


def _said(part: JSONObject) -> JSONObject:
    binary = None if part["type"] == "text" else write_binary(part)
    if binary is not None:
        return {"part_kind": "file", "content": binary}
    if part["type"] == "text":
        return {"part_kind": "text", "content": part["text"]}
    shown = write_part(part)  # a model's answer holds no URLs of files: they are named in its text
    url = shown.get("url") or shown.get("file_id") if isinstance(shown, dict) else shown
    return {"part_kind": "text", "content": f"[{part['type']} {url}]"}


def _thinking(action: ThinkingAction) -> JSONObject:
    provider = None if action.provider_name == "unknown" else action.provider_name
    fields: JSONObject = {"content": action.content or "", "signature": action.signature, "id": action.thinking_id}
    return {"part_kind": "thinking", "provider_name": provider} | fields


def _provider(action: ToolCallAction | ToolReturnAction) -> JSONObject:
    name = action.extensions.get("provider_name")
    return {"provider_name": name} if by_provider(action) and isinstance(name, str) else {}


def _args(args: JSONValue) -> JSONValue:
    """Arguments that are read back as they are: objects themselves, text that is no JSON as it is, the rest as JSON."""
    if isinstance(args, dict):
        return args
    if isinstance(args, str) and args.strip() and not _is_json(args):
        return args
    return dumps(args).decode("utf-8", "surrogatepass")


def _is_json(text: str) -> bool:
    try:
        loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    return True
