"""How deep the JSON of a request nests, and how many values it has: counted as the bytes come, before anything parses it."""

from __future__ import annotations

import re

_MARK = re.compile(rb'[\[\]{},"]')
_IN_TEXT = re.compile(rb'["\\]')


class RefusedJSON(Exception):
    """The JSON passes a bound; the message says which."""


class JSONBounds:
    """Counts through the chunks of one body. What is no JSON is counted as if it were; the parser refuses it."""

    def __init__(self, *, max_depth: int, max_items: int) -> None:
        """Begin before the first byte.

        Args:
            max_depth: levels of arrays and objects.
            max_items: elements of arrays and members of objects, on all levels together.
        """
        self._max_depth = max_depth
        self._max_items = max_items
        self._depth = 0
        self._items = 0
        self._is_in_text = False
        self._is_escaped = False

    def feed(self, chunk: bytes) -> None:
        """Count one chunk.

        Raises:
            RefusedJSON: a bound is passed.
        """
        if b"\0" in chunk:  # JSON has none in UTF-8; in UTF-16 the marks would be counted wrong
            raise RefusedJSON("the JSON is not UTF-8")
        at = 0
        if self._is_escaped and chunk:
            at, self._is_escaped = 1, False
        while found := (_IN_TEXT if self._is_in_text else _MARK).search(chunk, at):
            at = found.end()
            mark = found[0]
            if mark == b'"':
                self._is_in_text = not self._is_in_text
            elif mark == b"\\":
                self._is_escaped = at == len(chunk)
                at += 1
            else:
                self._count(mark)

    def _count(self, mark: bytes) -> None:
        if mark in b"]}":
            self._depth -= 1
            return
        self._items += 1
        if mark in b"[{":
            self._depth += 1
            if self._depth > self._max_depth:
                raise RefusedJSON(f"the JSON nests deeper than {self._max_depth} levels")
        if self._items > self._max_items:
            raise RefusedJSON(f"the JSON has more than {self._max_items} values")
