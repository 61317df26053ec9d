"""The clients of one process's asks: asks of one server in the name of one agent go over one connection, as long as any does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from perdure.runtime.envelopes.client.client import EnvelopeClient
from perdure.runtime.envelopes.client.connection import Binding
from perdure.runtime.envelopes.client.identity import Identity
from perdure.runtime.envelopes.client.patience import Patience
from perdure.runtime.envelopes.credentials import Credential, read_credential
from perdure.runtime.envelopes.remote_parts import RemoteParts
from perdure.store.remote_asks import AskRow

_PATIENCE = Patience(busy=timedelta(seconds=1), broken=timedelta(seconds=2))
_ALONE = ("ws",)
"""Who leaves a stream of such a connection closes it."""


@dataclass(slots=True)
class _Shared:
    client: EnvelopeClient
    users: int = 0


class RemoteClients:
    """The clients in use. Nothing is connected before the first ask, nor after the last."""

    def __init__(self, parts: RemoteParts) -> None:
        """Hold none."""
        self._parts = parts
        self._shared: dict[tuple[str, str, str, Credential], _Shared] = {}

    @asynccontextmanager
    async def client(self, row: AskRow) -> AsyncGenerator[EnvelopeClient]:
        """Asks in the name of the agent of a row, with what the server is to be told.

        Raises:
            InvalidInput: the file with that cannot be used, or the agent's name cannot stand in a DID.
        """
        own = row.own or self._parts.own.did_of(row.agent)
        credential = await asyncio.to_thread(read_credential, self._parts.credentials, row.url, row.agent)
        name = (row.url, row.binding, own, credential)
        shared = self._shared.get(name)
        if shared is None or row.binding in _ALONE:
            made = _Shared(await self._made(row, own, credential))
            shared = made if row.binding in _ALONE else self._shared.setdefault(name, made)
        shared.users += 1
        try:
            yield shared.client
        finally:
            shared.users -= 1
            if not shared.users:
                if self._shared.get(name) is shared:
                    del self._shared[name]
                await shared.client.close()

    async def _made(self, row: AskRow, own: str, credential: Credential) -> EnvelopeClient:
        parts = self._parts
        identity = Identity(own, await parts.signers.signing(own))
        return await asyncio.to_thread(  # the authorities that it trusts are read from disk
            EnvelopeClient,
            row.url,
            identity=identity,
            keys=parts.keys,
            bearer=credential.bearer,
            client_certificate=credential.certificate,
            trust=parts.trust,
            binding=cast(Binding, row.binding),
            patience=_PATIENCE,
            clock=parts.clock,
        )
