"""Where the servers are: what the caller says, else the environment, else the nearest `.perdure/servers.json`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from perdure.errors import ServerUnavailable
from perdure.store.keyring import NO_KEYS, VARIABLE, Keyring, parse_keys


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """Temporal's host and port, the database's URL with its password, and the keys of what is sealed there."""

    temporal: str
    database_url: str
    keyring: Keyring = field(default=NO_KEYS, compare=False)

    def __repr__(self) -> str:
        return f"ServerAddresses(temporal={self.temporal!r}, database_url='postgresql://***')"


def find_addresses(
    *,
    temporal_address: str | None = None,
    database_url: str | None = None,
    folder: Path | None = None,
    keyring: Keyring | None = None,
) -> ServerAddresses:
    """The addresses to connect to.

    Args:
        temporal_address: goes before `PERDURE_TEMPORAL_ADDRESS`.
        database_url: goes before `PERDURE_DATABASE_URL`.
        folder: where to begin to look for `.perdure`; the current one by default.
        keyring: goes before `PERDURE_ENCRYPTION_KEYS`.

    Raises:
        InvalidInput: the keys cannot be used.
        ServerUnavailable: one of the two is nowhere; the message says how to give it.
    """
    temporal = temporal_address or os.environ.get("PERDURE_TEMPORAL_ADDRESS")
    database = database_url or os.environ.get("PERDURE_DATABASE_URL")
    if temporal is None or database is None:
        record = _record((folder or Path.cwd()).resolve())
        temporal = temporal or record.get("temporal", {}).get("address")
        database = database or record.get("postgres", {}).get("url")
    if temporal is None or database is None:
        missing = "PERDURE_TEMPORAL_ADDRESS" if temporal is None else "PERDURE_DATABASE_URL"
        raise ServerUnavailable(
            f"no servers are known here: start them with `perdure dev MODULE:APP`, or set {missing} "
            "(and its companion) to servers of your own"
        )
    return ServerAddresses(temporal, database, find_keyring() if keyring is None else keyring)


def find_keyring() -> Keyring:
    """The keys that the environment names in `PERDURE_ENCRYPTION_KEYS`; none if it is not set.

    Raises:
        InvalidInput: they cannot be used.
    """
    return parse_keys(os.environ.get(VARIABLE, ""))


def _record(folder: Path) -> dict[str, Any]:
    for place in (folder, *folder.parents):
        path = place / ".perdure" / "servers.json"
        try:
            found: object = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            return {name: value for name, value in cast("dict[str, Any]", found).items() if isinstance(value, dict)}
    return {}
