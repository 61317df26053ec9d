"""Keys of others that an operator wrote into a file: `{"NAME": {"keys": [JWK, ...]}}`. The file may change while we run."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.key_set import read_key_set
from perdure.protocols.uamp_envelope.keys import VerificationKey
from perdure.protocols.uamp_envelope.strict_json import parse_object

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 4 * 1024 * 1024

Keys = dict[str, tuple[VerificationKey, ...]]
_Stamp = tuple[int, int]


class ConfiguredKeys:
    """The keys of a file, by the name of whose they are."""

    def __init__(self, file: Path | None, variable: str) -> None:
        """Read the file.

        Args:
            file: where they are; None for none.
            variable: of the environment, that names the file: for messages.

        Raises:
            InvalidInput: it cannot be read, or is not of that form.
        """
        self._file = file
        self._variable = variable
        self._keys: Keys = {}
        self._stamp: _Stamp | None = None
        if file is not None:
            self._stamp = self._stamped(file)
            self._keys = self._read(file)

    async def of(self, name: str) -> tuple[VerificationKey, ...]:
        """The keys of a name; none if it is not in the file."""
        if self._file is not None:
            await asyncio.to_thread(self._renew, self._file)
        return self._keys.get(name, ())

    def _renew(self, file: Path) -> None:
        """Read the file again if it has changed; what cannot be read leaves the keys as they were."""
        try:
            stamp = self._stamped(file)
            if stamp != self._stamp:
                self._keys, self._stamp = self._read(file), stamp
        except InvalidInput as error:
            logger.warning("envelope_keys.file_left_out", extra={"reason": str(error)})

    def _stamped(self, file: Path) -> _Stamp:
        try:
            found = file.stat()
        except OSError as error:
            raise self._wrong(f"cannot be read: {error.strerror or error}") from error
        return found.st_mtime_ns, found.st_size

    def _read(self, file: Path) -> Keys:
        try:
            value = parse_object(file.read_bytes(), max_bytes=MAX_FILE_BYTES)
        except OSError as error:
            raise self._wrong(f"cannot be read: {error.strerror or error}") from error
        except UAMPError as error:
            raise self._wrong(error.message) from error
        made: Keys = {}
        for name, given in value.items():
            if not isinstance(given, dict):
                raise self._wrong(f'{name}: must be {{"keys": [...]}}')
            try:
                made[name] = read_key_set(given)
            except InvalidInput as error:
                raise self._wrong(f"{name}: {error}") from error
            if not made[name]:
                raise self._wrong(f"{name}: no key with a kid that is EC/P-256 or OKP/Ed25519")
        return made

    def _wrong(self, what: str) -> InvalidInput:
        return InvalidInput(f"{self._file} ({self._variable}): {what}")
