"""Which events of a log a viewer is told, and from which number on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.errors import InvalidInput
from perdure.store.events import Event

SOURCES = ("run", "uap", "upp", "own", "stage")
_TYPE = re.compile(r"[a-z][a-z0-9_.]{0,63}\*?|\*")
_MOST_TYPES = 50
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class EventChoice:
    """A filter of events; without any, all are told.

    Attributes:
        types: names, and beginnings of names.
        sources: who wrote them.
    """

    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def takes(self, event: Event) -> bool:
        """Whether an event is told."""
        if self.sources and event.source not in self.sources:
            return False
        return not self.types or any(_fits(wanted, event.type) for wanted in self.types)


def read_choice(types: str | None, sources: str | None) -> EventChoice:
    """The choice that a request makes.

    Args:
        types: names with commas between; one that ends in `*` stands for all that begin so.
        sources: run, uap, upp, own or stage, with commas between.

    Raises:
        InvalidInput: one of them is none.
    """
    names = _split(types)
    wrong = [name for name in names if not _TYPE.fullmatch(name)]
    if wrong or len(names) > _MOST_TYPES:
        raise InvalidInput(
            f"types {str(types)[:80]!r} cannot be used; give up to {_MOST_TYPES} names of event types with commas "
            "between, such as text_delta,run.*"
        )
    given = _split(sources)
    if not set(given) <= set(SOURCES):
        raise InvalidInput(f"sources {str(sources)[:80]!r} cannot be used; give some of {','.join(SOURCES)}")
    return EventChoice(names, given)


def read_after(text: str | int | None, newest: int) -> int:
    """The number behind which a viewer goes on.

    Args:
        text: as a request says it; None means from the beginning.
        newest: the last number of the log.

    Raises:
        InvalidInput: it is no number, or one that was not given yet.
    """
    if text is None or text == "":
        return 0
    digits = str(text).strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else _LARGEST
    if number > newest:
        raise InvalidInput(f"there is no event {digits[:40]!r} to go on after; the session's last one is {newest}")
    return number


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _fits(wanted: str, name: str) -> bool:
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted
