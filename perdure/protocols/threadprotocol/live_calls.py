"""The tool calls of a run as its stream tells them: their ids, what they wait for, and whether only the client can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from perdure.protocols.threadprotocol.recording import unused_id
from perdure.uap.ids import wait_id
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.tool_batch import group_calls
from perdure.upp.tool_call import ToolCall

APPROVAL = "approval"
CLIENT_TOOL = "client_tool"


@dataclass(slots=True)
class LiveCall:
    """One call.

    Attributes:
        id: what it is called in the stream: the model's id, or one that no other call of the conversation has.
        name: of the tool.
        began: the client has been told that its arguments come.
        thread_id: its id in the thread, once its answer is stored.
        wait: what it waits for, or has waited for last; None if for nothing.
        kind: of the wait.
        waits: nobody has answered the wait.
        denied: somebody did not approve it.
        is_over: there is a result.
        told: the result that a reader makes of what was told.
        held: its chunks, until those before it are over: a client that has all answers of a step goes on by itself, and is
            not to wait for a call that has not begun.
    """

    id: str
    name: str
    began: bool = False
    thread_id: str = ""
    wait: str | None = None
    kind: str = ""
    waits: bool = False
    denied: bool = False
    is_over: bool = False
    told: JSONValue = None
    held: list[JSONObject] = field(default_factory=list[JSONObject])

    def release(self) -> list[JSONObject]:
        """The chunks that were held."""
        held, self.held = self.held, []
        return held

    @property
    def rests(self) -> bool:
        """Whether it goes on only when the client has answered."""
        return self.waits and self.kind in (APPROVAL, CLIENT_TOOL)


@dataclass(slots=True)
class LiveCalls:
    """The calls of one run.

    Attributes:
        is_sequential: whether a tool of this name runs alone: those behind it have not begun before it is over.
        used: ids that other calls of the conversation have.
        of: the calls of each stored answer, in order.
    """

    is_sequential: Callable[[str], bool]
    used: set[str] = field(default_factory=set[str])
    of: dict[str, list[LiveCall]] = field(default_factory=dict[str, list[LiveCall]])
    _drafts: dict[str, dict[int, LiveCall]] = field(default_factory=dict[str, dict[int, LiveCall]])

    def draft(self, message: str, block: int, ident: str, name: str) -> LiveCall | None:
        """The call that a fragment belongs to; None for one whose name has not come."""
        drafts = self._drafts.setdefault(message, {})
        if block not in drafts and name:
            drafts[block] = self._new(ident, name)
        return drafts.get(block)

    def is_held(self, message: str, call: LiveCall) -> bool:
        """Whether a call that comes has to wait for one before it."""
        calls = list(self._drafts.get(message, {}).values())
        before = calls[: calls.index(call)]
        return bool(before) and any(self.is_sequential(one.name) for one in [*before, call])

    def begin(self, message: str) -> list[JSONObject]:
        """The chunks of the calls of an answer that begin now."""
        open_groups = [group for group in self._groups(message) if any(not call.is_over for call in group)]
        return [chunk for group in open_groups[:1] for call in group for chunk in call.release()]

    def forget(self, message: str) -> bool:
        """A message begins anew; whether any call of it was told."""
        drafts = self._drafts.pop(message, {})
        self.used -= {call.id for call in drafts.values()}
        return bool(drafts)

    def agree(self, message: str, calls: Iterable[ToolCall]) -> bool:
        """Whether the calls of the stored answer are those that were told as they came, if any were."""
        drafts = self._drafts.get(message, {})
        told = [drafts[block].name for block in sorted(drafts)]
        return not told or told == [call.tool_name for call in calls]

    def settle(self, message: str, calls: Iterable[ToolCall]) -> list[LiveCall]:
        """The answer is stored: its calls, in order."""
        drafts = self._drafts.pop(message, {})
        told = [drafts[block] for block in sorted(drafts)]
        self.of[message] = told or [self._new(call.tool_call_id, call.tool_name) for call in calls]
        return self.of[message]

    def at(self, message: str, index: int) -> LiveCall | None:
        """The call at a place of a stored answer."""
        calls = self.of.get(message, [])
        return calls[index] if 0 <= index < len(calls) else None

    def waiting(self, wait: str) -> LiveCall | None:
        """The call that a wait is about; a wait that was opened again has a number behind its id."""
        for message, calls in self.of.items():
            for index, call in enumerate(calls):
                own = wait_id(message, index)
                if wait == own or wait.startswith(f"{own}-"):
                    return call
        return None

    def returned(self, thread_id: str) -> LiveCall | None:
        """The call that a return of the thread belongs to."""
        return next((call for call in self.all() if call.thread_id == thread_id), None)

    def all(self) -> Iterable[LiveCall]:
        """All calls of stored answers."""
        return (call for calls in self.of.values() for call in calls)

    def resting(self) -> list[LiveCall]:
        """The calls that the client is to answer, if nothing else can go on; none if something can."""
        for message in self.of:
            for group in self._groups(message):
                open_calls = [call for call in group if not call.is_over]
                if open_calls:
                    return open_calls if all(call.rests for call in open_calls) else []
        return []

    def _groups(self, message: str) -> list[list[LiveCall]]:
        """The calls of a stored answer in groups that run one after another."""
        calls = {call.id: call for call in self.of.get(message, [])}
        named = [ToolCall(call.id, call.name, {}) for call in calls.values()]
        groups = group_calls(named, lambda call: self.is_sequential(call.tool_name))
        return [[calls[call.tool_call_id] for call in group] for group in groups]

    def _new(self, ident: str, name: str) -> LiveCall:
        own = unused_id(ident, self.used)
        self.used.add(own)
        return LiveCall(own, name)
