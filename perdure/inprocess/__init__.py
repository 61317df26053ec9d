"""The host without Temporal: the same strategies over plain memory, for scripts, notebooks and tests.

Nothing survives the process. `async with connect():` makes the same calls durable.
"""

from perdure.inprocess.host import InProcessHost

__all__ = ["InProcessHost"]
