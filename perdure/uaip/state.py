"""The shared state of a session as a task sees it: values by flat key, and what the task changed of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perdure.errors import InvalidInput
from perdure.uaip.keys import key_problem
from perdure.uaip.state_change import StateChange, size_of
from perdure.upp.json_value import JSONObject, JSONValue, dumps, jsonable, loads


@dataclass(frozen=True, slots=True)
class StateDiff:
    """What a task changed, with the values.

    Attributes:
        version: of the state that it was made on; it fits no other.
        values: new and changed values by key.
        deleted: keys that are no more.
    """

    version: int = 0
    values: JSONObject = field(default_factory=dict[str, JSONValue])
    deleted: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not self.values and not self.deleted

    def apply(self, values: Mapping[str, JSONValue]) -> JSONObject:
        """The values after this change; what was given stays as it is."""
        return {key: value for key, value in values.items() if key not in self.deleted} | self.values

    def change(self) -> StateChange:
        """The same without the values, as the stage machine knows it."""
        sizes = {key: size_of(key, value) for key, value in self.values.items()}
        return StateChange(self.version, sizes, self.deleted)


class State:
    """Values that all stages of a session share. Source: UAIP 0.1, State; has, delete and update are Perdure's.

    Keys are flat: `user.email` is one key, and no object `user` comes of it. Values are JSON. What is done to a value
    that `get` returned is a change like any other. Nothing is kept before the task has returned, and nothing at all if
    it raised.
    """

    def __init__(self, values: Mapping[str, JSONValue] | None = None, *, version: int = 0) -> None:
        """A state of these values, which are copied.

        Args:
            values: by key.
            version: how often the session's state has changed before.
        """
        self._before = {key: dumps(value) for key, value in (values or {}).items()}
        self._values: dict[str, Any] = {key: loads(data) for key, data in self._before.items()}
        self._version = version

    @property
    def version(self) -> int:
        """How often the session's state had changed when this was read."""
        return self._version

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default. `Any`, since the specification says so: JSON of the caller's choice."""
        return self._values.get(key, default)

    def set(self, key: str, value: object) -> None:
        """Write a value in a key's place.

        Args:
            key: 1 to 256 characters; `events` and what begins with `perdure.` is reserved.
            value: what `jsonable` has a JSON form for; a copy is kept.

        Raises:
            InvalidInput: the key cannot be used, or the value has no JSON form.
        """
        self.update({key: value})

    def update(self, values: Mapping[str, object]) -> None:
        """Write several values, or none of them if one cannot be written. Raises InvalidInput as `set`."""
        made = {key: _checked(key, value) for key, value in values.items()}
        self._values.update(made)

    def has(self, key: str) -> bool:
        """Whether there is a value, null or otherwise."""
        return key in self._values

    def delete(self, key: str) -> bool:
        """Take a key away; returns whether it was there."""
        there = key in self._values
        self._values.pop(key, None)
        return there

    def to_json(self) -> JSONObject:
        """A copy of all values. Raises InvalidInput if one was changed into something that is no JSON."""
        return {key: _checked(key, value) for key, value in self._values.items()}

    def sizes(self) -> dict[str, int]:
        """Bytes of each key, as the stage machine counts them. Raises InvalidInput as `to_json`."""
        return {key: size_of(key, value) for key, value in self.to_json().items()}

    def diff(self) -> StateDiff:
        """What has changed since this state was read; a key that has its old value again has not.

        Raises:
            InvalidInput: a value that `get` returned was changed into something that has no JSON form.
        """
        now = self.to_json()
        changed = {key: value for key, value in now.items() if self._before.get(key) != dumps(value)}
        return StateDiff(self._version, changed, tuple(key for key in self._before if key not in now))


def _checked(key: object, value: object) -> JSONValue:
    if not isinstance(key, str):
        raise InvalidInput(f"state: {key!r:.80} is no key; keys are texts, as 'cart.items'")
    problem = key_problem(key)
    if problem is not None:
        raise InvalidInput(f"state: {problem}")
    try:
        return jsonable(value)
    except TypeError as error:
        raise InvalidInput(f"state: the value of {key!r} must be JSON: {error}") from error
