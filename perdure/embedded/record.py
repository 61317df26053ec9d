"""`servers.json`: where the servers of a folder are, for this and for other processes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

_logger = logging.getLogger(__name__)


class TemporalRecord(BaseModel):
    """Where Temporal is, or was last; `pid` is None after a clean stop."""

    model_config = ConfigDict(frozen=True)
    address: str
    port: int
    pid: int | None


class PostgresRecord(BaseModel):
    """Where PostgreSQL is, or was last. The password is nowhere but in `url`."""

    model_config = ConfigDict(frozen=True)
    url: str
    port: int
    pid: int | None


class ServersRecord(BaseModel):
    """The content of `servers.json`."""

    model_config = ConfigDict(frozen=True)
    temporal: TemporalRecord | None = None
    postgres: PostgresRecord | None = None

    def stopped(self) -> ServersRecord:
        """Return what remains when both have ended: ports and password, without process ids."""
        return ServersRecord(
            temporal=self.temporal.model_copy(update={"pid": None}) if self.temporal else None,
            postgres=self.postgres.model_copy(update={"pid": None}) if self.postgres else None,
        )


def read_record(path: Path) -> ServersRecord:
    """Return what is recorded; an empty record if nothing is, or if the file is damaged.

    A damaged file costs nothing: ports are read from the running servers' command lines, and a lost password is set
    anew at the next start.
    """
    try:
        return ServersRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return ServersRecord()
    except ValidationError:
        _logger.warning("embedded.record_damaged path=%s", path)
        return ServersRecord()


def write_private(path: Path, text: str) -> None:
    """Replace a file whole, readable by its owner only, so that no reader or crash meets half of it."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
