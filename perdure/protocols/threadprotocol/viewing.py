"""A thread as one of its agents sees it: prompts, its own responses, and the results of its calls, in turn.

What a provider would refuse is not made: the results of a response's calls follow it at once, whatever was said in between.
Source: ThreadProtocol 1.0.0, ThreadProtocol → ModelMessages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from perdure.errors import InvalidInput
from perdure.protocols.threadprotocol.attribution import attributed, tool_line
from perdure.protocols.threadprotocol.content import MessageContent
from perdure.protocols.threadprotocol.models import (
    AnyAction,
    AssistantMessageAction,
    SystemAction,
    ThinkingAction,
    Thread,
    ToolCallAction,
    ToolReturnAction,
    UserMessageAction,
)
from perdure.upp.json_value import JSONObject

OwnAction: TypeAlias = AssistantMessageAction | ThinkingAction | ToolCallAction | ToolReturnAction
INTERRUPTED = "The call was interrupted: it has no result."


@dataclass(frozen=True, slots=True)
class View:
    """What an agent is shown of the others.

    Attributes:
        others_text: whose voice other agents' words have: the user's, in which no model takes them for its own, or the
            agent's own.
        others_tools: "hide"; "summarize", a line for each call with what came of it; "show", all of both, as text. Others'
            calls never become calls.
        since_join: leave out what was before the agent's `system.agent_join`.
    """

    others_text: Literal["user", "assistant"] = "user"
    others_tools: Literal["hide", "summarize", "show"] = "hide"
    since_join: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """Something said to the agent."""

    content: MessageContent
    action: AnyAction


@dataclass(frozen=True, slots=True)
class Response:
    """One response of the agent, or another's words in its voice: thinking, text, calls, and returns of the provider's."""

    actions: list[OwnAction] = field(default_factory=list[OwnAction])

    @property
    def message(self) -> AssistantMessageAction | None:
        """What it says."""
        return next((action for action in self.actions if isinstance(action, AssistantMessageAction)), None)

    @property
    def calls(self) -> list[ToolCallAction]:
        """The calls that are the application's to answer."""
        return [action for action in self.actions if isinstance(action, ToolCallAction) and not by_provider(action)]


@dataclass(frozen=True, slots=True)
class Results:
    """The results of the response before, in the order in which they came."""

    returns: list[ToolReturnAction]


Entry: TypeAlias = Prompt | Response | Results


def by_provider(action: AnyAction) -> bool:
    """Whether the provider itself ran the tool, so that call and return are parts of one response."""
    return action.extensions.get("provider_executed") is True


def view_thread(thread: Thread, agent_id: str, view: View | None = None) -> list[Entry]:
    """What an agent sees of a thread, in order.

    A call without a return is left open if nothing of the agent or to it comes after; else it gets a result that says so.

    Raises:
        InvalidInput: the thread has no such agent.
    """
    if agent_id not in thread.agents:
        known = ", ".join(thread.agents) or "none"
        raise InvalidInput(f"agent {agent_id!r:.80} is not in the thread's registry; its agents are: {known}")
    return _settled(list(_Viewing(thread, agent_id, View() if view is None else view).entries()))


class _Viewing:
    def __init__(self, thread: Thread, agent_id: str, view: View) -> None:
        self._thread, self._agent_id, self._view = thread, agent_id, view
        returns = [action for action in thread.actions if isinstance(action, ToolReturnAction)]
        self._returns = {action.tool_call_id: action for action in returns}
        calls = [action for action in thread.actions if isinstance(action, ToolCallAction)]
        self._calls = {action.tool_call_id: action for action in calls}
        self._response: Response | None = None

    def entries(self) -> Iterator[Entry]:
        for action in self._shown():
            match action:
                case UserMessageAction():
                    yield from self._close()
                    yield Prompt(action.content, action)
                case SystemAction():
                    continue
                case _ if self._agent_of(action) == self._agent_id:
                    yield from self._own(action)
                case _:
                    yield from self._others(action)
        yield from self._close()

    def _shown(self) -> list[AnyAction]:
        actions = self._thread.actions
        if not self._view.since_join:
            return actions
        joins = (index for index, action in enumerate(actions) if _joins(action, self._agent_id))
        return actions[max(joins, default=0) :]

    def _agent_of(self, action: OwnAction) -> str | None:
        if isinstance(action, ToolReturnAction):
            call = self._calls.get(action.tool_call_id)
            return None if call is None else call.agent_id
        return action.agent_id

    def _own(self, action: OwnAction) -> Iterator[Entry]:
        if isinstance(action, ToolReturnAction):
            if by_provider(self._calls[action.tool_call_id]):
                if self._response is not None and self._calls[action.tool_call_id] in self._response.actions:
                    self._response.actions.append(action)
            elif self._response is not None and self._response.calls:
                yield from self._close()  # all results of the response come here, later ones too
            return
        if self._begins_anew(action):
            leading = self._leading_thoughts() if isinstance(action, AssistantMessageAction) else []
            yield from self._close()
            self._own_response().actions.extend(leading)
        self._own_response().actions.append(action)

    def _own_response(self) -> Response:
        if self._response is None:
            self._response = Response()
        return self._response

    def _begins_anew(self, action: OwnAction) -> bool:
        if self._response is None:
            return False
        given, before = _origin(action), _origin(self._response.actions[-1]) if self._response.actions else None
        if given is not None and before is not None:
            return given != before
        return isinstance(action, AssistantMessageAction) and self._response.message is not None

    def _leading_thoughts(self) -> list[OwnAction]:
        """The thinking at the end of a response that a second text closes: it led to that text."""
        thoughts: list[OwnAction] = []
        actions = self._own_response().actions
        while isinstance(actions[-1], ThinkingAction) and _origin(actions[-1]) is None:
            thoughts.insert(0, actions.pop())
        return thoughts

    def _others(self, action: OwnAction) -> Iterator[Entry]:
        name = self._name_of(action)
        if isinstance(action, AssistantMessageAction):
            yield from self._close()
            content = attributed(name, action.content)
            if self._view.others_text == "user":
                yield Prompt(content, action)
            else:
                fields: JSONObject = {"content": content if isinstance(content, str) else [*content]}
                yield Response([AssistantMessageAction.model_validate(action.to_json() | fields)])
        elif not isinstance(action, ThinkingAction) and self._view.others_tools != "hide":
            line = tool_line(action, self._calls, self._returns, in_full=self._view.others_tools == "show")
            if line is not None:
                yield from self._close()
                yield Prompt(attributed(name, line), action)

    def _name_of(self, action: OwnAction) -> str:
        agent = self._thread.agents.get(self._agent_of(action) or "")
        return "unknown" if agent is None else agent.agent_name

    def _close(self) -> Iterator[Entry]:
        response, self._response = self._response, None
        if response is None:
            return
        yield response
        returns = [self._returns[call.tool_call_id] for call in response.calls if call.tool_call_id in self._returns]
        if returns:
            yield Results(sorted(returns, key=lambda action: action.sequence))


def _settled(entries: list[Entry]) -> list[Entry]:
    """The entries with a result for every call that something comes after."""
    settled: list[Entry] = []
    for index, entry in enumerate(entries):
        before = settled[-1] if settled else None
        if isinstance(before, Response) and not isinstance(entry, Results):
            settled += [Results(results)] if (results := [_interrupted(call) for call in before.calls]) else []
        elif isinstance(before, Response) and isinstance(entry, Results) and index + 1 < len(entries):
            answered = {action.tool_call_id for action in entry.returns}
            entry.returns.extend(_interrupted(call) for call in before.calls if call.tool_call_id not in answered)
        settled.append(entry)
    return settled


def _interrupted(call: ToolCallAction) -> ToolReturnAction:
    return ToolReturnAction.model_validate(
        {
            "action_type": "tool_return",
            "timestamp": call.timestamp,
            "sequence": call.sequence,
            "tool_call_id": call.tool_call_id,
            "tool_name": call.tool_name,
            "status": "error",
            "content": INTERRUPTED,
            "outcome": "interrupted",
        }
    )


def _joins(action: AnyAction, agent_id: str) -> bool:
    if not isinstance(action, SystemAction) or action.action_type != "system.agent_join":
        return False
    return isinstance(action.data, dict) and action.data.get("agent_id") == agent_id


def _origin(action: AnyAction) -> str | None:
    """The message that the action was read from, where the mapping noted it."""
    origin = action.extensions.get("message_id")
    return origin if isinstance(origin, str) else None
