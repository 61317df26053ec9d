"""The floor's driver: `python -m benchmarks.floor_driver`.

Options:
    rows: also insert, plainly, the rows that Perdure has of the same steps.
    sandbox: Temporal's sandbox around the workflow.
    full_messages: send each model call the whole conversation.
    workers: processes; 1.
"""

from __future__ import annotations

from benchmarks.floor_tables import make_tables
from benchmarks.line import Given, Ready, given, serve
from benchmarks.temporal_driver import Contestant, TemporalDriver

_OPTIONS = {"rows", "sandbox", "full_messages", "workers"}


class FloorDriver(TemporalDriver):
    """See `TemporalDriver`; its tables are made before its workers start."""

    def __init__(self, start: Given) -> None:
        if unknown := set(start.options) - _OPTIONS:
            raise ValueError(f"the floor has no option {', '.join(sorted(unknown))}")
        floor = Contestant(
            name="floor",
            worker="benchmarks.floor_worker",
            workers=start.options.get("workers", 1),
            packages=["temporalio", "pydantic", "asyncpg"],
            arguments=[bool(start.options.get("full_messages"))],
        )
        super().__init__(floor, start)
        self._rows_at = start.database_url if start.options.get("rows") else None

    async def start(self) -> Ready:
        if self._rows_at is not None:
            await make_tables(self._rows_at)
        return await super().start()


if __name__ == "__main__":
    serve(FloorDriver(given()))
