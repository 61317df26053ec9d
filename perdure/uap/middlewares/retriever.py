"""`Retriever`: the port through which `memory` looks things up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perdure.upp.messages import Message


class Retriever(Protocol):
    """A store of texts or messages that can be searched; over vectors, words or whatever else."""

    async def retrieve(self, query: str, k: int) -> Sequence[str | Message]:
        """The best finds, the best first.

        Args:
            query: what the user says.
            k: how many at most.
        """
        ...
