"""Bodies at hand in this process, by name: so many bytes of them, the longest unused go first."""

from __future__ import annotations

from collections import OrderedDict


class RecentBodies:
    """Bodies that were put or asked for last."""

    def __init__(self, most_bytes: int) -> None:
        """Keep at most so many bytes, and the last body in any case."""
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._size_bytes = 0
        self._most_bytes = most_bytes

    def get(self, name: str) -> bytes | None:
        """A body that is at hand, else None."""
        body = self._bodies.get(name)
        if body is not None:
            self._bodies.move_to_end(name)
        return body

    def put(self, name: str, body: bytes) -> None:
        """Have a body at hand."""
        if name not in self._bodies:
            self._size_bytes += len(body)
        self._bodies[name] = body
        self._bodies.move_to_end(name)
        while self._size_bytes > self._most_bytes and len(self._bodies) > 1:
            _, gone = self._bodies.popitem(last=False)
            self._size_bytes -= len(gone)
