"""Actions: what a client asks of a session. The whole of one stands in its row; the machine sees its head."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum

from perdure.uaip.refusal import Reason, Refusal
from perdure.uaip.state_change import size_of
from perdure.upp.json_value import JSONObject, JSONValue, sha256_hex


class ActionKind(StrEnum):
    """The actions. The last two are no part of the specification: the first UAIP server and its client have them."""

    METHOD_CALL = "method_call"
    STAGE_TRANSITION = "stage_transition"
    STATE_INPUT = "state_input"
    TERMINATE_SESSION = "terminate_session"
    HANDSHAKE = "handshake"


@dataclass(frozen=True, slots=True)
class Action:
    """One action as a client sent it. Source: UAIP 0.1, POST /execute.

    Attributes:
        kind: what is asked.
        name: the task or the stage; "" for the other kinds.
        arguments: of a task.
        updates: of the state, by flat key.
        reason: why the session is terminated.
    """

    kind: ActionKind
    name: str = ""
    arguments: JSONObject = field(default_factory=dict[str, JSONValue])
    updates: JSONObject = field(default_factory=dict[str, JSONValue])
    reason: str = ""

    @property
    def sha256(self) -> str:
        """The same for two actions that ask the same, whatever the order of members."""
        said = [self.kind, self.name, self.arguments, self.updates, self.reason]
        return sha256_hex(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())

    def head(self, ordinal: int, at_ms: int) -> ActionHead:
        """What the machine sees of it.

        Args:
            ordinal: its place in the session's inbox, from 1.
            at_ms: when it was accepted, in milliseconds since 1970; the store's clock.
        """
        sizes = {key: size_of(key, value) for key, value in self.updates.items()}
        return ActionHead(ordinal, at_ms, self.kind, self.name, sizes)


@dataclass(frozen=True, slots=True)
class ActionHead:
    """An action without what it carries.

    Attributes:
        ordinal: its place in the session's inbox.
        at_ms: when it was accepted.
        kind: what is asked.
        name: the task or the stage.
        sizes: bytes of each updated key.
    """

    ordinal: int
    at_ms: int
    kind: ActionKind
    name: str = ""
    sizes: dict[str, int] = field(default_factory=dict[str, int])


class KeyUse(StrEnum):
    """What an idempotency key says of an action: it is new, it is one that was sent before, or the key is another's."""

    NEW = "new"
    SAME = "same"
    CONFLICT = "conflict"


def key_use(stored_sha256: str | None, action: Action) -> KeyUse:
    """How an action stands to its idempotency key.

    A key belongs to the first action of its session that came with it, refused or not; the same action with it again is
    answered from that one's row, as it is then.

    Args:
        stored_sha256: `Action.sha256` of the row that has the key; None if no row has.
        action: what came now.
    """
    if stored_sha256 is None:
        return KeyUse.NEW
    return KeyUse.SAME if stored_sha256 == action.sha256 else KeyUse.CONFLICT


def key_conflict(key: str) -> Refusal:
    """The refusal of another action with a used key."""
    return Refusal(Reason.KEY_CONFLICT, f"Idempotency key {key[:200]!r} was used before with another action")
