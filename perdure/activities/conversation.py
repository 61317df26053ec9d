"""What a model call is sent: the messages before the run, as its middleware or its caller would have them, and the run's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.activities.contracts import GenerateInput
from perdure.activities.services import Before, Place, Services
from perdure.errors import DamagedSession
from perdure.store.answers import Writer
from perdure.store.messages import read_message
from perdure.uap.open_calls import sendable_history
from perdure.uap.options import RunOptions
from perdure.uap.request import is_settled
from perdure.upp.messages import Message, UserMessage, message_from_json

_INPUT = UserMessage("")  # stands for the run's own, which answers no tool call


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a model call is about, oldest first, without its prompt.

    Attributes:
        before: messages before its run that `is_settled`; however many they are, no call looks through them again.
        rest: all others.
    """

    before: list[Message]
    rest: list[Message]


async def read_conversation(
    services: Services, writer: Writer, call: GenerateInput, options: RunOptions
) -> Conversation:
    """The conversation that a model call is about.

    Raises:
        DamagedSession: a message is missing or does not have its hash.
    """
    place = Place(call.node, call.start, call.epoch)
    before = await _known_before(services, writer, place, options)
    if call.ask is not None and call.ask.view is not None:
        return Conversation([], await resolve(services, writer, call.ask.view, before.messages))
    end = call.position - bool(call.ask and call.ask.prompt)
    stored = await services.cache.read(writer.key, call.node, first=call.start, end=end, epoch=call.epoch)
    own = [item.message for item in stored]
    return Conversation(before.messages, own) if before.settled else Conversation([], before.messages + own)


async def _known_before(services: Services, writer: Writer, place: Place, options: RunOptions) -> Before:
    """The messages before a run, which are the same for each of its model calls."""
    known = services.before(writer.run, place)
    if known is None:
        messages = await messages_before(services, writer, place, options)
        known = Before(place, messages, is_settled(messages))
        services.remember_before(writer.run, known)
    return known


async def messages_before(services: Services, writer: Writer, place: Place, options: RunOptions) -> list[Message]:
    """The messages before a run: the view that its middleware left, else the history it was submitted with, else the thread."""
    items = await services.view(writer)
    if items is None:
        return await submitted_before(services, writer, place, options)
    needed = any("before" in item for item in items)
    before = await submitted_before(services, writer, place, options) if needed else []
    return await resolve(services, writer, items, before)


async def submitted_before(services: Services, writer: Writer, place: Place, options: RunOptions) -> list[Message]:
    """The messages before a run as its submit has them: the history that it gave, else the thread."""
    if options.history is not None:
        return [message_from_json(item) for item in options.history]
    return await thread_before(services, writer, place)


async def thread_before(services: Services, writer: Writer, place: Place) -> list[Message]:
    """The thread before a run, its ancestors' part first."""
    key, cache = writer.key, services.cache
    messages: list[Message] = []
    for node, end in [*await services.ancestry(key, place.node, place.start), (place.node, place.start)]:
        messages += [item.message for item in await cache.read(key, node, end=end, epoch=place.epoch)]
    return sendable_history(messages, _INPUT)


async def resolve(
    services: Services, writer: Writer, items: Sequence[dict[str, Any]], before: Sequence[Message]
) -> list[Message]:
    """The messages that a view names.

    Args:
        services: the store.
        writer: whose run it is.
        items: each {"before": [i, j]}, those of `before` from i up to, not including, j; {"id": row id}, a stored
            message; or {"message": MessageJSON}, one that is not stored.
        before: the messages before the run.

    Raises:
        DamagedSession: a stored message is not there.
    """
    messages: list[Message] = []
    for item in items:
        if "before" in item:
            first, end = item["before"]
            messages += before[first:end]
        elif "id" in item:
            messages.append(await _stored(services, writer, str(item["id"])))
        else:
            messages.append(message_from_json(item["message"]))
    return messages


async def _stored(services: Services, writer: Writer, ident: str) -> Message:
    found = await read_message(services.database, writer.key, ident)
    if found is None:
        raise DamagedSession(
            f"session {writer.key.session} lacks message {ident}, which a view of run {writer.run} names"
        )
    return found.message
