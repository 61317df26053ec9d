"""The tables of prepaid balances. They are among `perdure.store.tables`, whose rules hold for them too."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from perdure.store.columns import metadata
from perdure.store.columns import number_column as _number
from perdure.store.columns import text_column as _text
from perdure.store.columns import time_column as _time


def _amount(name: str, *, null: bool = False, default: str | None = None) -> Column[object]:
    return Column(name, Numeric(), nullable=null, server_default=None if default is None else text(default))


payment_accounts = Table(
    "payment_accounts", metadata,
    _text("tenant_id"), _text("id"), _text("name"), _text("currency"),
    _amount("balance", default="0"), _amount("held", default="0"),
    _number("entries", BigInteger(), default=0), _time("created_at"),
    _time("expires_at", null=True), _time("closed_at", null=True), PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip

payment_tokens = Table(
    "payment_tokens", metadata,
    _text("tenant_id"), _text("sha256"), _text("account"), _time("made_at"), _time("expires_at", null=True),
    _time("revoked_at", null=True), PrimaryKeyConstraint("tenant_id", "sha256"),
)  # fmt: skip
Index("payment_tokens_by_account", payment_tokens.c.tenant_id, payment_tokens.c.account)

payment_holds = Table(
    "payment_holds", metadata,
    _text("tenant_id"), _text("id"), _text("account"), _amount("amount"), _text("state"), _amount("charged", null=True),
    _amount("short", null=True), _text("for_session"), _text("for_run"), _time("made_at"), _time("ended_at", null=True),
    PrimaryKeyConstraint("tenant_id", "id"),
)  # fmt: skip
Index("payment_holds_open", payment_holds.c.made_at, postgresql_where=text("state = 'held'"))
Index("payment_holds_by_run", payment_holds.c.tenant_id, payment_holds.c.for_run)

payment_entries = Table(
    "payment_entries", metadata,
    _text("tenant_id"), _text("account"), _number("ordinal", BigInteger()), _text("kind"), _text("ref"),
    _amount("amount"), _amount("balance"), _text("for_session", null=True), _text("for_run", null=True), _time("at"),
    PrimaryKeyConstraint("tenant_id", "account", "ordinal"), UniqueConstraint("tenant_id", "account", "kind", "ref"),
)  # fmt: skip

run_payments = Table(
    "run_payments", metadata,
    _text("tenant_id"), _text("run_id"), _text("for_session"), _text("gate"), _text("currency"), _number("holds", default=0),
    _amount("held", default="0"), _amount("spent", default="0"), _amount("charged", null=True), _amount("short", null=True),
    _time("made_at"), _time("settled_at", null=True), PrimaryKeyConstraint("tenant_id", "run_id"),
)  # fmt: skip
Index("run_payments_open", run_payments.c.made_at, postgresql_where=text("settled_at is null"))
