"""What the tables' columns are made of. The tables themselves are in `tables`, or in a file beside it that it imports."""

from __future__ import annotations

from sqlalchemy import JSON, Column, DateTime, Integer, MetaData, Text, text
from sqlalchemy.types import TypeEngine

SCHEMA = "perdure"
metadata = MetaData(schema=SCHEMA)


def text_column(name: str, *, null: bool = False, default: str | None = None) -> Column[str]:
    """A text."""
    return Column(name, Text(), nullable=null, server_default=default)


def json_column(name: str, *, null: bool = False) -> Column[object]:
    """JSON as text, so that it comes back as it was written."""
    return Column(name, JSON(), nullable=null)


def time_column(name: str, *, null: bool = False) -> Column[object]:
    """A time with its zone."""
    return Column(name, DateTime(timezone=True), nullable=null)


def number_column(
    name: str, kind: TypeEngine[int] | None = None, *, null: bool = False, default: int | None = None
) -> Column[int]:
    """A whole number, of 32 bits if its kind is not given."""
    return Column(
        name, kind or Integer(), nullable=null, server_default=None if default is None else text(str(default))
    )
