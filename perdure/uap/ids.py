"""Identifiers that are derived, never drawn, so that whoever repeats a step asks for the same ones.

A run that is adopted by another execution, or an activity that is tried again, derives the ids of its messages,
checkpoints and tool calls once more and finds what was stored under them.
"""

from __future__ import annotations

import hashlib
import uuid
from functools import lru_cache

_UUID = 36


@lru_cache(maxsize=4096, typed=True)
def derive_id(*parts: str | int) -> str:
    """An id of UUIDv4 form that depends on `parts` alone.

    Args:
        parts: what the id stands for, outermost first, for example (run id, "message", step, index).
    """
    text = "\x1f".join(str(part) for part in parts)
    digest = bytearray(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x40
    digest[8] = digest[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))


def new_id() -> str:
    """A random UUIDv4, for what has no parent to derive an id from. Never called in workflow code."""
    return str(uuid.uuid4())


def is_uuid4(text: str) -> bool:
    """Whether `text` is a UUIDv4 in its canonical, lower-case, hyphenated form."""
    if len(text) != _UUID:
        return False
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        return False
    return parsed.version == 4 and str(parsed) == text


def root_node_id(session_id: str) -> str:
    """The id of a session's root thread node."""
    return derive_id(session_id, "node", 0)


def run_id(session_id: str, ordinal: int) -> str:
    """The id of the run that handles input `ordinal` of a session."""
    return derive_id(session_id, "run", ordinal)


def answer_id(run: str, step: int, place: int = 0) -> str:
    """The id of an assistant message of a step: its first, or the one after `place` others."""
    return derive_id(run, "message", step, 0, *_after(place))


def results_id(run: str, step: int, place: int = 0) -> str:
    """The id of the tool-result message that belongs to the answer at the same place."""
    return derive_id(run, "message", step, 1, *_after(place))


def scaffold_id(run: str, step: int, place: int = 0) -> str:
    """The id of an answer of a step that is the strategy's own: its first, or the one after `place` others."""
    return derive_id(run, "message", step, 2, *_after(place))


def prompt_id(message: str) -> str:
    """The id of the prompt that an answer was given to."""
    return derive_id(message, "prompt")


def tool_call_key(message: str, index: int) -> str:
    """The key of one tool call: unique where a vendor's call id may repeat. It is the tool's idempotency key."""
    return derive_id(message, "tool_call", index)


def checkpoint_id(run: str, step: int) -> str:
    """The id of the checkpoint at the end of a step."""
    return derive_id(run, "checkpoint", step)


def wait_id(message: str, index: int) -> str:
    """The id of the wait that a tool call opened."""
    return derive_id(message, "wait", index)


def child_session_id(message: str, index: int) -> str:
    """The id of the session of the sub-agent that a tool call asked."""
    return derive_id(message, "child", index)


def agent_session_id(stage_session: str, ordinal: int) -> str:
    """The id of the session of the agent whose run is a task: the action `ordinal` of a stage session."""
    return derive_id(stage_session, "agent", ordinal)


def _after(place: int) -> tuple[int, ...]:
    """What sets ids apart that stand for others of the same step; histories know the first without it."""
    return (place,) if place else ()
