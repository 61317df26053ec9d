"""The workflows that workers serve, and the definitions that sessions are pinned to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import DamagedSession, InvalidInput
from perdure.store.database import Database
from perdure.store.tables import stage_definitions, stage_workflows
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.keys import is_unprintable
from perdure.upp.redaction import known_secrets

_MOST_KEPT = 256
_kept: OrderedDict[tuple[str, str], WorkflowDefinition] = OrderedDict()
"""Definitions that were read, by tenant and hash: what a hash names never changes."""


@dataclass(frozen=True, slots=True)
class ServedWorkflow:
    """A workflow as its last worker registered it.

    Attributes:
        definition: what new sessions are pinned to.
        sha256: the definition's.
        task_queue: where its workers listen.
        seen_at: when it was registered.
    """

    definition: WorkflowDefinition
    sha256: str
    task_queue: str
    seen_at: datetime


async def register_workflows(
    database: Database, tenant: str, definitions: Sequence[WorkflowDefinition], task_queue: str
) -> None:
    """Write what this worker serves; the last writer of a name wins. Sessions that are open stay on what they have.

    Raises:
        InvalidInput: a definition has a secret in it.
    """
    for definition in definitions:
        _check_secrets(definition)
    async with database.transaction() as connection:
        for definition in definitions:
            own = {"tenant_id": tenant, "sha256": definition.sha256}
            body = upsert(stage_definitions).values(
                **own, body=definition.to_json(), made_at=func.clock_timestamp()
            )  # fmt: skip
            await connection.execute(body.on_conflict_do_nothing())
            said: dict[str, Any] = {
                "sha256": definition.sha256, "task_queue": task_queue, "seen_at": func.clock_timestamp(),
            }  # fmt: skip
            row = upsert(stage_workflows).values(tenant_id=tenant, name=definition.name, **said)
            await connection.execute(row.on_conflict_do_update(index_elements=["tenant_id", "name"], set_=said))


async def find_workflow(database: Database, tenant: str, name: str) -> ServedWorkflow | None:
    """The workflow of that name, or None if no worker has registered one."""
    if is_unprintable(name):
        return None
    query = _served(tenant).where(stage_workflows.c.name == name)
    async with database.transaction() as connection:
        row = (await connection.execute(query)).first()
    return None if row is None else _workflow(tenant, row)


async def list_workflows(database: Database, tenant: str, *, search: str | None = None) -> list[ServedWorkflow]:
    """The workflows that are served, by name.

    Args:
        database: the store.
        tenant: whose.
        search: only those whose name or description has this text, in capitals or not.
    """
    async with database.transaction() as connection:
        rows = (await connection.execute(_served(tenant).order_by(stage_workflows.c.name))).all()
    found = [_workflow(tenant, row) for row in rows]
    wanted = (search or "").casefold()
    return [one for one in found if wanted in f"{one.definition.name}\n{one.definition.description}".casefold()]


async def read_definition(database: Database, tenant: str, sha256: str) -> WorkflowDefinition:
    """A definition that something is pinned to.

    Raises:
        DamagedSession: it is not stored, or is not what its hash says.
    """
    known = _recall(tenant, sha256)
    if known is not None:
        return known
    async with database.transaction() as connection:
        return await definition_of(connection, tenant, sha256)


async def definition_of(connection: AsyncConnection, tenant: str, sha256: str) -> WorkflowDefinition:
    """The same within a transaction."""
    known = _recall(tenant, sha256)
    if known is not None:
        return known
    query = select(stage_definitions.c.body).where(
        stage_definitions.c.tenant_id == tenant, stage_definitions.c.sha256 == sha256
    )
    body = await connection.scalar(query)
    if body is None:
        raise DamagedSession(f"the workflow definition {sha256} is stored no more; restore it from a backup")
    return _keep(tenant, sha256, body)


def _served(tenant: str) -> Any:
    on = (stage_definitions.c.tenant_id == stage_workflows.c.tenant_id) & (
        stage_definitions.c.sha256 == stage_workflows.c.sha256
    )
    columns = (stage_workflows.c.sha256, stage_workflows.c.task_queue, stage_workflows.c.seen_at)
    query = select(*columns, stage_definitions.c.body).join_from(stage_workflows, stage_definitions, on)
    return query.where(stage_workflows.c.tenant_id == tenant)


def _workflow(tenant: str, row: Row[Any]) -> ServedWorkflow:
    definition = _recall(tenant, row.sha256) or _keep(tenant, row.sha256, row.body)
    return ServedWorkflow(definition, row.sha256, row.task_queue, row.seen_at)


def _recall(tenant: str, sha256: str) -> WorkflowDefinition | None:
    known = _kept.get((tenant, sha256))
    if known is not None:
        _kept.move_to_end((tenant, sha256))
    return known


def _keep(tenant: str, sha256: str, body: Any) -> WorkflowDefinition:
    try:
        definition = WorkflowDefinition.from_json(body)
    except InvalidInput as error:
        raise DamagedSession(f"the stored workflow definition {sha256} cannot be read: {error}") from error
    if definition.sha256 != sha256:
        raise DamagedSession(f"the stored workflow definition {sha256} was changed; it is not used")
    _kept[tenant, sha256] = definition
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)
    return definition


def _check_secrets(definition: WorkflowDefinition) -> None:
    whole = definition.to_json()
    if known_secrets.json(whole) != whole:
        raise InvalidInput(
            f"workflow {definition.name!r} has a secret in its definition, which is stored and which clients may see; "
            'take it out, or name it as {"$secret": name}'
        )
