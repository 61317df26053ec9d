"""A session's metadata between its user, who changes it at will, and the store, where others may change it too."""

from __future__ import annotations

from copy import deepcopy

from perdure.store.database import Database
from perdure.store.session_metadata import write_metadata
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.redaction import known_secrets


class MetadataMirror:
    """What of the metadata is known to be stored: keys that differ from it are the user's changes."""

    def __init__(self, database: Database, key: SessionKey) -> None:
        """Know nothing to be stored."""
        self._database = database
        self._key = key
        self._known: JSONObject = {}

    async def write(self, metadata: JSONObject) -> None:
        """Store the keys that the user has changed or removed.

        Args:
            metadata: a copy of the user's.
        """
        changed = {name: value for name, value in metadata.items() if not self._is_known(name, metadata)}
        removed = self._known.keys() - metadata.keys()
        if changed or removed:
            await write_metadata(self._database, self._key, known_secrets.json(changed), removed)
            self._known = metadata

    def take(self, stored: JSONObject, metadata: JSONObject) -> None:
        """Show what is stored; what the user has changed since stays.

        Args:
            stored: a copy that nobody else has.
            metadata: the user's; it is changed.
        """
        for name in stored.keys() | self._known.keys():
            if self._is_known(name, metadata):
                if name in stored:
                    metadata[name] = stored[name]
                else:
                    metadata.pop(name, None)
        self._known = deepcopy(stored)

    def _is_known(self, name: str, metadata: JSONObject) -> bool:
        """Whether the user's value is the one that was stored, or neither is there."""
        if name not in metadata or name not in self._known:
            return name not in metadata and name not in self._known
        return repr(metadata[name]) == repr(self._known[name])  # tells 1 from True, and takes what is not JSON yet
