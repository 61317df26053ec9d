"""Whether each tool call of a thread has its one result directly behind it, in order, and what makes it so. Pure.

Vendors refuse a thread in which it is otherwise, for good. What is proposed depends on the thread alone, and of a thread
that has been mended nothing is proposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perdure.uap.open_calls import NOT_CARRIED_OUT
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolResult


@dataclass(frozen=True, slots=True)
class Place:
    """A message of a thread, by the id of its row. `lost`: its body cannot be read; of results there are none then."""

    id: str
    message: Message
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """The results that an answer must have.

    Attributes:
        answer: row id of the answer that asked.
        instead: row ids of the results that stand there now, the first to be replaced and the others dropped; none if
            there are none.
        results: one for each call, in call order.
    """

    answer: str
    instead: tuple[str, ...]
    results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True)
class Cure:
    """What is wrong with a thread, and what makes it sound.

    Attributes:
        faults: what is wrong, a phrase each, in order.
        batches: results to write.
        dropped: row ids of results that belong nowhere, or that stand in a batch now.
    """

    faults: tuple[str, ...] = ()
    batches: tuple[Batch, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(slots=True)
class _Asked:
    """An answer with calls, the result messages right behind it, and what of them it takes."""

    at: int
    place: Place
    calls: list[str]
    behind: list[Place] = field(default_factory=list[Place])
    taken: list[ToolResult | None] = field(default_factory=list[ToolResult | None])

    def take(self, result: ToolResult) -> bool:
        """Give a result to the first call of its id that has none."""
        for index, call in enumerate(self.calls):
            if call == result.tool_call_id and self.taken[index] is None:
                self.taken[index] = result
                return True
        return False

    @property
    def is_sound(self) -> bool:
        """Whether just these results stand behind it, in this order."""
        there = [result for place in self.behind for result in _results(place.message)]
        return there == self.taken and not any(place.lost for place in self.behind)


@dataclass(frozen=True, slots=True)
class _Loose:
    """A result that the answer before it does not take."""

    at: int
    result: ToolResult


def cure(thread: Sequence[Place], known: Mapping[tuple[str, int], ToolResult], *, goes_on: bool = False) -> Cure:
    """What is wrong with the tool calls of a thread, and what makes it sound.

    Args:
        thread: oldest first.
        known: the results of calls as they were stored, by row id of the answer and index: for those that it lacks.
        goes_on: it goes on from another thread, so results at its beginning may belong to that one's last answer.
    """
    asked, strays = _read(thread, goes_on=goes_on)
    loose = [_Loose(at, result) for at, place in strays for result in _results(place.message)]
    faults: list[tuple[int, str]] = []
    for answer in asked:
        loose += _hand_out(answer)
    left = _claim(asked, loose, faults)
    faults += [(item.at, _homeless(item.result, thread[: item.at])) for item in left]
    faults += [(at, f"message {place.id} has no result") for at, place in strays if not _results(place.message)]
    batches: list[Batch] = []
    for answer in asked:
        faults += [(answer.at, f"call {_short(call)} has no result") for call in _missing(answer)]
        if not answer.is_sound:
            if None not in answer.taken and sorted(_ids(answer.behind)) == sorted(answer.calls):
                faults.append((answer.at, f"the results of message {answer.place.id} stand in another order"))
            batches.append(_batch(answer, known))
    told = tuple(fault for _, fault in sorted(faults, key=lambda item: item[0]))
    return Cure(told, tuple(batches), tuple(place.id for _, place in strays))


def _read(thread: Sequence[Place], *, goes_on: bool) -> tuple[list[_Asked], list[tuple[int, Place]]]:
    """The answers that ask, with the results right behind each; and results that stand behind none."""
    asked: list[_Asked] = []
    strays: list[tuple[int, Place]] = []
    current: _Asked | None = None
    at_beginning = goes_on
    for at, place in enumerate(thread):
        if isinstance(place.message, ToolResultMessage):
            if current is not None:
                current.behind.append(place)
            elif not at_beginning:
                strays.append((at, place))
            continue
        current, at_beginning = None, False
        if isinstance(place.message, AssistantMessage) and place.message.tool_calls:
            calls = [call.tool_call_id for call in place.message.tool_calls]
            current = _Asked(at, place, calls, [], [None] * len(calls))
            asked.append(current)
    return asked, strays


def _hand_out(answer: _Asked) -> Iterator[_Loose]:
    """Hand an answer the results behind it; those that it does not take."""
    for at, place in enumerate(answer.behind, answer.at + 1):
        yield from (_Loose(at, result) for result in _results(place.message) if not answer.take(result))


def _claim(asked: Sequence[_Asked], loose: Sequence[_Loose], faults: list[tuple[int, str]]) -> list[_Loose]:
    """Give loose results to the calls before them that lack one; those that nobody takes."""
    left: list[_Loose] = []
    for item in sorted(loose, key=lambda one: one.at):
        name = item.result.tool_call_id
        owner = next((answer for answer in reversed(asked) if answer.at < item.at and name in answer.calls), None)
        if owner is not None and owner.take(item.result):
            faults.append((item.at, f"the result of call {_short(name)} does not stand behind its call"))
        else:
            left.append(item)
    return left


def _batch(answer: _Asked, known: Mapping[tuple[str, int], ToolResult]) -> Batch:
    results = [
        result or replace(known.get((answer.place.id, index), _not_carried_out(call)), tool_call_id=call)
        for index, (call, result) in enumerate(zip(answer.calls, answer.taken, strict=True))
    ]
    return Batch(answer.place.id, tuple(place.id for place in answer.behind), tuple(results))


def _not_carried_out(call: str) -> ToolResult:
    return ToolResult(call, NOT_CARRIED_OUT, is_error=True)


def _homeless(result: ToolResult, before: Sequence[Place]) -> str:
    name = result.tool_call_id
    answers = [place.message for place in before if isinstance(place.message, AssistantMessage)]
    if any(call.tool_call_id == name for answer in answers for call in answer.tool_calls or ()):
        return f"call {_short(name)} has another result"
    return f"a result belongs to no call, its id is {_short(name)}"


def _missing(answer: _Asked) -> list[str]:
    return [call for call, result in zip(answer.calls, answer.taken, strict=True) if result is None]


def _results(message: Message) -> list[ToolResult]:
    return message.results if isinstance(message, ToolResultMessage) else []


def _ids(places: Sequence[Place]) -> list[str]:
    return [result.tool_call_id for place in places for result in _results(place.message)]


def _short(call: str) -> str:
    return repr(call if len(call) <= 80 else call[:79] + "…")
