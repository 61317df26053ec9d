"""A driver that needs no servers, for tests of the line: what it does is said by the option "does"."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from benchmarks import line
from benchmarks.work import check_answer, final_text


class ScriptedDriver(line.Driver):
    """Its runs last a moment."""

    def __init__(self) -> None:
        """Read what it is to do."""
        self._given = line.given()
        self._does = self._given.options.get("does", "")

    async def start(self) -> line.Ready:
        """Start nothing."""
        if self._does == "not start":
            raise OSError("no server")
        sys.stdout.write("what a library prints\n")
        sys.stdout.flush()
        return line.Ready({"worker": [os.getpid()]}, {"python": sys.version.split()[0]})

    async def runs(self, work: str, runs: int, at_once: int) -> line.Done:
        """Runs that end well, or not."""

        async def one(number: int) -> str:
            await asyncio.sleep(0)
            if self._does == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            check_answer(
                work, "nonsense" if self._does == "answer wrongly" and number == runs - 1 else final_text(work)
            )
            return f"run {number}"

        return await line.closed_loop(one, runs, at_once)

    async def turns(self, work: str, turns: int) -> line.Done:
        """Turns of one session."""

        async def one(turn: int) -> str:
            return self._given.folder

        return await line.one_by_one(one, turns)

    async def stored(self, ids: Sequence[str]) -> Mapping[str, float]:
        """As many bytes as ids."""
        return {"history_bytes": len(ids), "events": 0}

    async def stop(self) -> None:
        """Leave a note that it stopped."""
        sys.stdout.write("stopped\n")


if __name__ == "__main__":
    line.serve(ScriptedDriver())
