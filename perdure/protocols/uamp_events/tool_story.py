"""The tool calls of one response: who runs them, what is known of them, which are open."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from perdure.protocols.uamp_events.content_items import CalledTool
from perdure.uap.ids import wait_id
from perdure.upp.json_value import JSONObject
from perdure.upp.tool_batch import group_calls
from perdure.upp.tool_call import ToolCall


@dataclass(slots=True)
class Call:
    """One call.

    Attributes:
        id: the vendor's, or one that is unique in the response.
        pieces: of its arguments' JSON text, as they were streamed.
        whole: the call itself, once it is known.
        wait: id of the wait that the client's result answers.
        is_over: there is a result.
    """

    id: str
    name: str
    is_clients: bool
    pieces: list[str] = field(default_factory=list[str])
    whole: ToolCall | None = None
    wait: str | None = None
    is_over: bool = False

    def called(self, arguments: str) -> CalledTool:
        """The call on the wire, with these arguments."""
        return CalledTool(id=self.id, name=self.name, arguments=arguments)


class ToolStory:
    """All calls of a response."""

    def __init__(self, client_tools: Collection[str], runs_alone: Callable[[str], bool]) -> None:
        """Begin without calls.

        Args:
            client_tools: names of the tools that the client runs.
            runs_alone: whether calls of a tool of this name run alone: those behind it begin once it is over.
        """
        self._client_tools = frozenset(client_tools)
        self._runs_alone = runs_alone
        self._placed: dict[str, dict[int, Call]] = {}
        self._calls: dict[str, Call] = {}
        self._current: dict[str, Call] = {}
        self._streams: dict[tuple[str, int], Call] = {}
        self._waits: dict[str, Call] = {}

    def call(self, ident: str, name: str) -> Call:
        """The call of an id. Some vendors use an id again: once its call is over, the next one gets an id of its own."""
        found = self._current.get(ident)
        if found is None or found.is_over:
            used = sum(1 for call in self._calls.values() if call.id.partition("~")[0] == ident)
            found = Call(f"{ident}~{used + 1}" if used else ident, name, name in self._client_tools)
            self._current[ident] = self._calls[found.id] = found
        return found

    def streamed(self, message: str, index: int, ident: str, name: str) -> Call | None:
        """The call that a fragment belongs to; only the first one need name it."""
        if ident:
            self._streams[message, index] = self.call(ident, name)
        return self._streams.get((message, index))

    def take_back(self, message: str) -> None:
        """Forget the fragments of a message that begins anew."""
        for place in [place for place in self._streams if place[0] == message]:
            call = self._streams.pop(place)
            self._calls.pop(call.id, None)
            self._current = {ident: known for ident, known in self._current.items() if known is not call}

    def placed(self, message: str, index: int, call: Call) -> None:
        """A call stands at this place of a message, which gives its wait's id."""
        self._placed.setdefault(message, {})[index] = call
        self._waits[wait_id(message, index)] = call

    def waiting(self, wait: str) -> Call | None:
        """The call that a wait is about; a wait that was opened again has a number behind its id."""
        found = self._waits.get(wait)
        if found is not None:
            return found
        return next((call for ident, call in self._waits.items() if wait.startswith(f"{ident}-")), None)

    def open_calls(self) -> list[Call]:
        """Those whose results the client owes, oldest first."""
        return [call for call in self._calls.values() if call.is_clients and call.wait is not None and not call.is_over]

    def waits_for_client(self) -> bool:
        """Whether nothing goes on without results that the client owes: of the calls that run now all are over, or asked for."""
        for message in self._placed:
            for group in self._groups(message):
                running = [call for call in group if not call.is_over]
                if running:
                    return all(call.is_clients and call.wait is not None for call in running)
        return False

    def _groups(self, message: str) -> list[list[Call]]:
        """The calls of a message in groups that run one after another."""
        calls = [call for _, call in sorted(self._placed[message].items())]
        named = [ToolCall(str(place), call.name, {}) for place, call in enumerate(calls)]
        groups = group_calls(named, lambda call: self._runs_alone(call.tool_name))
        return [[calls[int(call.tool_call_id)] for call in group] for group in groups]


def place_of(data: JSONObject) -> tuple[str, int]:
    """Message and index that a row of UPP's is about."""
    index = data.get("index")
    return str(data.get("message", "")), index if isinstance(index, int) else 0
