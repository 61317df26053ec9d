"""How an answer looks: JSON for programs and tables for people on stdout, what is said besides on stderr."""

from __future__ import annotations

import json
import re
import select
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.upp.json_value import JSONValue

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNCUT_COLUMNS = 10_000


class ReaderGone(Exception):
    """Who read our output has closed it, as `head` does; there is nobody left to tell."""


def put(text: str) -> None:
    """Write to stdout at once.

    Raises:
        ReaderGone: nobody reads it.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def is_reader_gone() -> bool:
    """Tell whether stdout is a pipe that nobody reads any more; a write would tell too, but there may be none for long."""
    watch = select.poll()
    watch.register(sys.stdout, 0)
    return any(event & (select.POLLERR | select.POLLNVAL) for _, event in watch.poll(0))


def put_text(text: str) -> None:
    """Write what a model said: as it is into a pipe or file, without control characters onto a terminal."""
    put(visible(text) if sys.stdout.isatty() else text)


def put_json(document: JSONValue) -> None:
    """Write one JSON document. It is ASCII, so any text survives any locale."""
    put(json.dumps(document, indent=2) + "\n")


def put_json_line(document: JSONValue) -> None:
    """Write one JSON document in one line, for an answer that has no end."""
    put(json.dumps(document) + "\n")


def put_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table. No cell is cut or folded, however narrow the terminal: an id must stay whole to be copied."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    _put_rendered(table)


def put_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Write names and values, one pair a line; what is None is left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    for name, value in fields:
        if value is not None:
            grid.add_row(name, _cell(value))
    _put_rendered(grid)


def say(line: str, *, style: str = "dim") -> None:
    """Tell a person something that is no part of the answer."""
    Console(stderr=True, highlight=False).print(Text(visible(line)), style=style, soft_wrap=True)


def visible(text: str) -> str:
    """The text without what a terminal would obey; line breaks and tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def in_short(value: JSONValue, limit: int = 120) -> str:
    """A value's JSON in one line of at most `limit` characters; a text as it is, its first line."""
    text = value.partition("\n")[0] if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _cell(value: object) -> Text:
    return Text("" if value is None else visible(str(value)))


def _put_rendered(table: Table) -> None:
    console = Console(highlight=False, width=_UNCUT_COLUMNS)
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().splitlines()
    put("".join(line.rstrip() + "\n" for line in lines))
