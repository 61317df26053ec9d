"""The search attribute by which Temporal's lists show in which stage a stage session is."""

from __future__ import annotations

import logging

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.activities.contracts import STAGE_ATTRIBUTE
from perdure.errors import ServerUnavailable
from perdure.runtime.temporal import RPC_TIMEOUT

logger = logging.getLogger(__name__)

_KIND = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
_REFUSALS = (
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNAUTHENTICATED,
    RPCStatusCode.UNIMPLEMENTED,
    RPCStatusCode.INVALID_ARGUMENT,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.ALREADY_EXISTS,
)
"""What a server answers that lets nobody, or not this client, or no more, be registered."""


async def register_stage_attribute(client: Client) -> bool:
    """See that the client's namespace has the search attribute; whether it has.

    Where a client may not register one, as in Temporal Cloud, an operator does: `PerdureStage`, a Keyword. Without it stage
    sessions work all the same, and only Temporal's lists do not show their stages.

    Raises:
        ServerUnavailable: Temporal does not answer.
    """
    try:
        if await _has_it(client):
            return True
        request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes={STAGE_ATTRIBUTE: _KIND})
        await client.operator_service.add_search_attributes(request, timeout=RPC_TIMEOUT)
        return await _has_it(client)
    except RPCError as error:
        if error.status not in _REFUSALS:
            raise ServerUnavailable(
                f"Temporal did not say whether it knows {STAGE_ATTRIBUTE!r}: {error.message}"
            ) from error
        logger.warning("stage.attribute_missing %s", error.message)
        return False


async def _has_it(client: Client) -> bool:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    found = await client.operator_service.list_search_attributes(request, timeout=RPC_TIMEOUT)
    return found.custom_attributes.get(STAGE_ATTRIBUTE) == _KIND
