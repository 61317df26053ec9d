"""What the demo's effects cost, noted by the effects themselves, outside of anything that the product stores.

One line of JSON per effect, appended by one write, so that lines of several processes never mix and a killed process
leaves whole lines only.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

FILE = "ledger.jsonl"
Kind: TypeAlias = Literal["model", "tool"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One effect.

    Attributes:
        kind: a model call that was bought, or a tool that ran.
        key: the same for the same effect done again: a model call's number in the run, a tool call's idempotency key.
        name: of the model or tool.
        pid: the worker process.
        at: Unix time in seconds.
    """

    kind: Kind
    key: str
    name: str
    pid: int
    at: float


class Ledger:
    """The ledger of one work folder."""

    def __init__(self, work: Path) -> None:
        """Use the ledger in `work`; the folder must exist when something is noted."""
        self._path = work / FILE

    def note(self, kind: Kind, key: str, name: str) -> None:
        """Note an effect of this process at the moment it happens."""
        line = json.dumps(asdict(Entry(kind, key, name, os.getpid(), time.time()))) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def entries(self) -> list[Entry]:
        """Everything noted so far, oldest first."""
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [Entry(**json.loads(line)) for line in lines]


def repeated(entries: Iterable[Entry]) -> list[Entry]:
    """One entry for each time that an effect was done again."""
    seen: Counter[tuple[Kind, str]] = Counter()
    again: list[Entry] = []
    for entry in entries:
        seen[entry.kind, entry.key] += 1
        if seen[entry.kind, entry.key] > 1:
            again.append(entry)
    return again
