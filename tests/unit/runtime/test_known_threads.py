"""Which session holds a history: exactly that one, and once."""

from __future__ import annotations

from perdure.runtime.known_threads import KnownThread, KnownThreads
from perdure.upp.messages import AssistantMessage, Message, UserMessage

SAID: list[Message] = [UserMessage("one"), AssistantMessage("two")]
HELD = KnownThread("session", 1)


def known(limit: int = 10) -> KnownThreads:
    threads = KnownThreads(limit)
    threads.keep("agent", SAID, HELD)
    return threads


def test_a_thread_that_is_held_is_found_once() -> None:
    threads = known()
    assert threads.take("agent", list(SAID)) == HELD
    assert threads.take("agent", SAID) is None


def test_another_agent_or_another_thread_is_not_found() -> None:
    threads = known()
    assert threads.take("other", SAID) is None
    assert threads.take("agent", SAID[:1]) is None
    assert threads.take("agent", [*SAID, UserMessage("three")]) is None
    assert threads.take("agent", [SAID[1], SAID[0]]) is None


def test_a_message_that_was_changed_under_its_id_is_another_one() -> None:
    changed = UserMessage("other", id=SAID[0].id, timestamp=SAID[0].timestamp)
    assert known().take("agent", [changed, SAID[1]]) is None


def test_the_oldest_threads_leave() -> None:
    threads = known(limit=1)
    threads.keep("agent", SAID[:1], HELD)
    assert threads.take("agent", SAID) is None
    assert threads.take("agent", SAID[:1]) == HELD
