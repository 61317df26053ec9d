"""A list of actions as it grows: numbered, dated, with one meaning for every call id.

All mappings into ThreadProtocol record through it, so that what they make holds to the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from pydantic import ValidationError

from perdure.protocols.threadprotocol.models import AnyAction, action_model
from perdure.protocols.threadprotocol.moments import normal_moment
from perdure.protocols.threadprotocol.problem import refuse
from perdure.upp.json_value import JSONObject, JSONValue, loads, well_formed


class Recording:
    """Actions in order. Numbers go up by one from the first; times never go back."""

    def __init__(self, *, first: int = 1, not_before: str) -> None:
        """An empty recording.

        Args:
            first: the first action's number.
            not_before: the thread's creation, or the time of the action above.
        """
        self.actions: list[AnyAction] = []
        self._next = first
        self._latest = _moment(not_before)
        self._names: dict[str, str] = {}
        self._open: dict[str, list[str]] = {}
        self._used: set[str] = set()

    @property
    def used_ids(self) -> frozenset[str]:
        """The ids of all calls."""
        return frozenset(self._used)

    @property
    def latest(self) -> str:
        """The last action's time."""
        return self._latest

    def add(self, action_type: str, fields: Mapping[str, JSONValue], timestamp: str | None = None) -> None:
        """Records an action; a member that is None is left out, except where the specification allows null.

        Args:
            action_type: a core type, or a system action's.
            fields: the members of that type.
            timestamp: when it was; the last action's if None.

        Raises:
            InvalidThread: a member cannot be used.
        """
        model = action_model(action_type)
        assert model is not None, f"{action_type} is no action"
        if timestamp is not None:
            self._latest = max(self._latest, _moment(timestamp))
        sound = cast(JSONObject, well_formed(dict(fields)))
        given = {
            name: value for name, value in sound.items() if value is not None or name in ("content", "args", "data")
        }
        head: JSONObject = {"action_type": action_type, "timestamp": self._latest, "sequence": self._next}
        try:
            self.actions.append(model.model_validate(head | given))
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            path = f"{action_type}.{'.'.join(str(step) for step in fault['loc'])}"
            raise refuse(path, "mapping", fault["msg"], "correct the message that it is read from") from error
        self._next += 1

    def call(self, call_id: str, fields: Mapping[str, JSONValue], timestamp: str | None = None) -> None:
        """Records a tool call. An id that an earlier call had gets a suffix, as does its return.

        Args:
            call_id: as the model gave it.
            fields: `agent_id`, `tool_name`, `args` and what else there is.
            timestamp: when it was.
        """
        own = unused_id(call_id, self._used)
        self._used.add(own)
        self._open.setdefault(call_id, []).append(own)
        self._names[own] = str(fields["tool_name"])
        self.add("tool_call", {"tool_call_id": own, **fields}, timestamp)

    def give_back(self, call_id: str, fields: Mapping[str, JSONValue], timestamp: str | None = None) -> None:
        """Records the return of the oldest open call of an id, under the call's own tool name.

        A return that no call waits for is kept as a system action, since it would make the thread invalid.

        Args:
            call_id: as the model gave it.
            fields: `status`, `content` and what else there is.
            timestamp: when it was.
        """
        waiting = self._open.get(call_id)
        if not waiting:
            self.add("system.orphan_tool_return", {"data": {"tool_call_id": call_id, **fields}}, timestamp)
            return
        own = waiting.pop(0)
        self.add("tool_return", {**fields, "tool_call_id": own, "tool_name": self._names[own]}, timestamp)

    def name_of(self, call_id: str) -> str | None:
        """The tool of the oldest open call of an id; None if there is none."""
        waiting = self._open.get(call_id)
        return self._names[waiting[0]] if waiting else None

    @property
    def open_calls(self) -> list[str]:
        """The ids of calls that have not returned, as the model gave them, oldest first."""
        return [call_id for call_id, waiting in self._open.items() for _ in waiting]


def unused_id(call_id: str, used: Collection[str]) -> str:
    """The id that a thread has for the next call of an id, among those that are used."""
    own, number = call_id or "call", 1
    while own in used:
        number += 1
        own = f"{call_id or 'call'}~{number}"
    return own


def _moment(text: str) -> str:
    try:
        return normal_moment(text)
    except ValueError as error:
        raise refuse("timestamp", "timestamp", str(error), "give a time with a zone") from error


def json_args(args: JSONValue) -> JSONValue:
    """A call's arguments as a JSON value: text is read as JSON, text that is none stays, nothing is `{}`."""
    if args is None or (isinstance(args, str) and not args.strip()):
        return {}
    if not isinstance(args, str):
        return args
    try:
        return loads(args.encode("utf-8", "surrogatepass"))
    except ValueError:
        return args
