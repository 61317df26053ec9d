"""The tenants that keys were made for. A tenant needs no row to have sessions; its row says since when it has keys."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.tables import tenants


async def keep_tenant(connection: AsyncConnection, tenant: str) -> None:
    """Have a row for a tenant; one that is there stays as it is."""
    row = upsert(tenants).values(tenant_id=tenant, created_at=datetime.now(UTC))
    await connection.execute(row.on_conflict_do_nothing())
