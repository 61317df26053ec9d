"""A session's thread as a client has it: what both have in common stays, and where it goes on otherwise a branch opens.

Pure. Reading messages a page at a time, and writing what became of the tree, is the host's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from perdure.errors import InvalidInput
from perdure.uap.ids import derive_id
from perdure.uap.open_calls import NOT_CARRIED_OUT
from perdure.uap.same_said import says_nothing, says_same
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, message_from_json
from perdure.upp.tool_call import ToolResult

_THREAD = "thread"
_BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a session's thread is to be when an input's turn comes.

    Attributes:
        thread: all that was said, oldest first, as the client has it; None if the thread goes on as it is.
        before: what stands between it and the input, oldest first.
    """

    thread: Sequence[Message] | None = None
    before: Sequence[Message] = field(default=())

    @property
    def is_nothing(self) -> bool:
        """Whether the thread goes on as it is, with the input next."""
        return self.thread is None and not self.before

    def to_json(self) -> JSONObject:
        """As the inbox keeps it."""
        kept: JSONObject = {_BEFORE: [message.to_json() for message in self.before]}
        return kept if self.thread is None else {_THREAD: [message.to_json() for message in self.thread], **kept}

    @classmethod
    def from_json(cls, value: JSONObject) -> Rewrite:
        """Read what `to_json` wrote."""
        return cls(_messages(value[_THREAD]) if _THREAD in value else None, _messages(value[_BEFORE]))


def sound_rewrite(given: Rewrite) -> Rewrite:
    """The same with each tool call's one result directly behind it, in order; a call without any gets an error.

    Raises:
        InvalidInput: a result that belongs to no call before it.
    """
    return Rewrite(None if given.thread is None else _sound(given.thread), _sound(given.before))


class CommonBeginning:
    """How far a stored thread and a given one are the same; the stored one is shown message by message, oldest first.

    Attributes:
        kept: so many messages of the stored thread stay.
        ended: they differ from here on.
    """

    def __init__(self, given: Sequence[Message]) -> None:
        """Nothing is shown yet. In `given` results stand behind their calls, in order."""
        self._given = given
        self._used = 0
        self._calls: list[str] = []
        self.kept = 0
        self.ended = False

    @property
    def rest(self) -> list[Message]:
        """What the given thread goes on with. Results of a call that stays name it by its id in the stored thread."""
        rest = list(self._given[self._used :])
        if rest and isinstance(rest[0], ToolResultMessage):
            first = rest[0]
            named = zip(first.results, self._calls, strict=True)
            results = [replace(result, tool_call_id=call) for result, call in named]
            rest[0] = ToolResultMessage(results, id=first.id, timestamp=first.timestamp, metadata=first.metadata)
        return rest

    def show(self, stored: Message) -> None:
        """Take the stored thread's next message. One that says nothing stays where the client has none."""
        if self.ended:
            return
        if self._used < len(self._given) and says_same(stored, self._given[self._used]):
            self._calls = _call_ids(stored)
            self._used += 1
        elif not says_nothing(stored):
            self.ended = True
            return
        self.kept += 1


def way_of(tree: ThreadTree) -> list[tuple[str, int]]:
    """The nodes from the root to the current one, and how many messages of each the current history has."""
    way: list[tuple[str, int]] = []
    node, count = tree.current, len(tree.current.thread)
    while True:
        way.append((node.id, count))
        if node.parent_id is None:
            return way[::-1]
        parent = tree.nodes[node.parent_id]
        own = len(parent.thread)
        node, count = parent, own if node.fork_index is None else min(node.fork_index, own)


def rewrite_tree(tree: ThreadTree, kept: int, rest: Sequence[Message], *, branch_id: str) -> str:
    """Have the current history end after its first `kept` messages, and go on with `rest`; the current node from now on.

    A branch is opened only if something is left out.

    Args:
        tree: is changed.
        kept: of the current history.
        rest: what comes behind them.
        branch_id: of the branch.
    """
    way = way_of(tree)
    if kept < sum(count for _, count in way):
        node, place = _place(way, kept)
        tree.checkout(tree.branch(node, id=branch_id, fork_index=place))
    if rest:
        tree.current.thread.push(*rest)
    return tree.current.id


def _call_ids(message: Message) -> list[str]:
    return [call.tool_call_id for call in message.tool_calls or ()] if isinstance(message, AssistantMessage) else []


def _place(way: Sequence[tuple[str, int]], kept: int) -> tuple[str, int]:
    """The node that the last of the first `kept` messages stands in, and how many of its own are among them."""
    for node, count in way:
        if kept <= count:
            return node, kept
        kept -= count
    raise AssertionError("a history has no more messages than its nodes")


def _sound(messages: Sequence[Message]) -> list[Message]:
    made: list[Message] = []
    place = 0
    while place < len(messages):
        message = messages[place]
        if isinstance(message, ToolResultMessage):
            raise InvalidInput(_homeless(next(iter(message.results), None)))
        made.append(message)
        place += 1
        if isinstance(message, AssistantMessage):
            behind = list(_results_behind(messages, place))
            place += len(behind)
            if message.tool_calls or behind:
                made.append(_answered(message, behind))
    return made


def _results_behind(messages: Sequence[Message], place: int) -> Iterator[ToolResultMessage]:
    for item in messages[place:]:
        if not isinstance(item, ToolResultMessage):
            return
        yield item


def _answered(message: AssistantMessage, behind: Sequence[ToolResultMessage]) -> ToolResultMessage:
    calls = message.tool_calls or []
    taken: list[ToolResult | None] = [None] * len(calls)
    for result in (result for item in behind for result in item.results):
        own = (at for at, call in enumerate(calls) if call.tool_call_id == result.tool_call_id and taken[at] is None)
        at = next(own, None)
        if at is None:
            raise InvalidInput(_homeless(result))
        taken[at] = result
    results = [
        result or ToolResult(call.tool_call_id, NOT_CARRIED_OUT, is_error=True)
        for call, result in zip(calls, taken, strict=True)
    ]
    if behind:
        first = behind[0]
        return ToolResultMessage(results, id=first.id, timestamp=first.timestamp, metadata=first.metadata)
    return ToolResultMessage(results, id=derive_id(message.id, "results"), timestamp=message.timestamp)


def _homeless(result: ToolResult | None) -> str:
    which = "a tool's result" if result is None else f"the result of call {result.tool_call_id[:80]!r}"
    return f"{which} stands behind no answer that asked for it; give the assistant's message with the call before it"


def _messages(value: JSONValue) -> list[Message]:
    assert isinstance(value, list), "the inbox keeps a list of messages"
    return [message_from_json(item) for item in value]
