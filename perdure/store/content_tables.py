"""The tables of media and of the URLs that show it. They are among `perdure.store.tables`, whose rules hold for them too."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, LargeBinary, PrimaryKeyConstraint, Table, desc, text

from perdure.store.columns import json_column as _json
from perdure.store.columns import metadata
from perdure.store.columns import number_column as _number
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time

contents = Table(
    "contents", metadata,
    _text("tenant_id"), _text("id"), _text("media_type"), _json("filename", null=True), _number("size", BigInteger()),
    _text("sha256"), Column("bytes", LargeBinary(), nullable=False), _text("made_by"), _time("made_at"),
    _time("expires_at", null=True), PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("contents_by_id", contents.c.id, unique=True)
Index("contents_by_time", contents.c.tenant_id, desc(contents.c.made_at), desc(contents.c.id))
Index("contents_expiring", contents.c.expires_at, postgresql_where=text("expires_at is not null"))

url_keys = Table(
    "url_keys", metadata,
    _text("tenant_id"), _text("id"), Column("secret", LargeBinary(), nullable=False), _time("made_at"),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
