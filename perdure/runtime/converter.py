"""How values become payloads of Temporal and back, for everything that has keys and a database."""

from __future__ import annotations

import dataclasses

from temporalio.converter import DataConverter

from perdure.activities.convert import data_converter
from perdure.activities.failures import EncodedFailureConverter
from perdure.runtime.codec import SealingCodec
from perdure.runtime.payload_store import external_storage
from perdure.store.database import Database
from perdure.store.keyring import Keyring


def converter_for(keyring: Keyring, database: Database | None = None) -> DataConverter:
    """The converter of a client, worker or replayer.

    Args:
        keyring: with keys, payloads are sealed, and so are messages and stack traces of failures.
        database: takes payloads that are too large for a history; None where there is none, as in a replay from files.
    """
    storage = None if database is None else external_storage(database)
    if not keyring:
        return dataclasses.replace(data_converter, external_storage=storage)
    return dataclasses.replace(
        data_converter,
        payload_codec=SealingCodec(keyring),
        failure_converter_class=EncodedFailureConverter,
        external_storage=storage,
    )
