"""The events of a streamed answer, as UPP's, and the whole answer that they end in."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.providers._http import VendorEvent, VendorRequest, error_in_stream
from perdure.upp.providers.openai_responses.kept import without
from perdure.upp.providers.openai_responses.response import call_id_of
from perdure.upp.stream import (
    EventDelta,
    StreamEvent,
    StreamEventType,
    content_block_start,
    content_block_stop,
    message_start,
    message_stop,
    reasoning_delta,
    text_delta,
    tool_call_delta,
)


class ResponseStream:
    """Reads one stream.

    Attributes:
        response: the whole answer, once the stream has ended it.
    """

    def __init__(self, sent: VendorRequest) -> None:
        self.response: JSONObject | None = None
        self._sent = sent
        self._begun = False
        self._items: dict[int, JSONObject] = {}
        self._places: dict[str, int] = {}
        self._pieces: dict[int, tuple[str, JSONValue]] = {}
        self._argued: set[int] = set()

    def read(self, event: VendorEvent) -> Iterator[StreamEvent]:
        """Yields what an event of the vendor's means; nothing if it is of a kind that nobody knows.

        Raises:
            UPPError: the vendor says that something went wrong.
        """
        data, kind = event.data, event.data.get("type") or event.name
        self._refuse_failed(kind, data)
        events = list(self._read(str(kind), data))
        if not self._begun and (events or kind == "response.created"):
            self._begun = True
            yield message_start()
        yield from events

    def _refuse_failed(self, kind: JSONValue, data: JSONObject) -> None:
        response = data.get("response")
        match kind, data:
            case "error", {"error": dict(error)}:
                raise error_in_stream(self._sent, error)
            case "error", _:
                raise error_in_stream(self._sent, without(data, "type", "sequence_number"))
            case (("response.failed" | "response.cancelled"), _):
                error = response.get("error") if isinstance(response, dict) else None
                raise error_in_stream(self._sent, error or {"message": f"the vendor says: {kind}"})
            case _, {"error": dict(error)} if "type" not in data:
                raise error_in_stream(self._sent, error)
            case _:
                return

    def _read(self, kind: str, data: JSONObject) -> Iterator[StreamEvent]:
        delta = data.get("delta")
        text = delta if isinstance(delta, str) else ""
        match kind:
            case "response.output_item.added":
                yield self._added(data)
            case "response.output_text.delta" | "response.refusal.delta" if text:
                yield text_delta(text, self._place(data))
            case "response.reasoning_summary_text.delta" if text:
                yield self._reasoned(text, data, "summary_index")
            case "response.reasoning_text.delta" if text:
                yield self._reasoned(text, data, "content_index")
            case "response.function_call_arguments.delta" if text:
                yield self._argument(text, self._place(data))
            case "response.output_item.done":
                yield from self._done(data)
            case "response.completed" | "response.incomplete":
                self._end(data, kind.removeprefix("response."))
                yield message_stop()
            case _:
                return

    def _added(self, data: JSONObject) -> StreamEvent:
        place = self._place(data)
        self._items[place] = _item(data)
        return content_block_start(place)

    def _done(self, data: JSONObject) -> Iterator[StreamEvent]:
        place, item = self._place(data), _item(data)
        if place not in self._items:
            yield content_block_start(place)
        self._items[place] = item
        arguments, image = item.get("arguments"), item.get("result")
        match item.get("type"):
            case "function_call" if place not in self._argued and isinstance(arguments, str) and arguments:
                yield self._argument(arguments, place)
            case "image_generation_call" if isinstance(image, str) and (shown := _decoded(image)):
                yield StreamEvent(StreamEventType.IMAGE_DELTA, place, EventDelta(data=shown))
            case _:
                pass
        yield content_block_stop(place)

    def _reasoned(self, text: str, data: JSONObject, index: str) -> StreamEvent:
        """Returns a piece of reasoning; a new part of it begins with a blank line, as in the whole answer."""
        place, part = self._place(data), (index, data.get(index))
        earlier = self._pieces.setdefault(place, part)
        self._pieces[place] = part
        return reasoning_delta(text if earlier == part else f"\n\n{text}", place)

    def _argument(self, text: str, place: int) -> StreamEvent:
        self._argued.add(place)
        item = self._items.get(place, {})
        name = item.get("name")
        return tool_call_delta(call_id_of(item), name if isinstance(name, str) else "", text, place)

    def _place(self, data: JSONObject) -> int:
        """Returns the position of the item that an event is about; some services tell it by the item's id only."""
        given = data.get("output_index")
        if isinstance(given, int):
            return given
        own = str(data.get("item_id") or _item(data).get("id") or "")
        return self._places.setdefault(own, len(self._places))

    def _end(self, data: JSONObject, status: str) -> None:
        """Keeps the whole answer: the vendor's own, or one of the items that came if it sends none again."""
        said = data.get("response")
        response = said if isinstance(said, dict) else {}
        items: list[JSONValue] = [self._items[place] for place in sorted(self._items)]
        self.response = {"status": status, **response, "output": response.get("output") or items}


def _item(data: JSONObject) -> JSONObject:
    item = data.get("item")
    return item if isinstance(item, dict) else {}


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
