"""What a process that serves does with the memory it starts with."""

from __future__ import annotations

import gc


def keep_heap() -> None:
    """Have the garbage collector leave alone what there is: modules and what was set up stay until the process ends.

    A full collection would go through all of it again, and for that fraction of a second nothing is answered.
    """
    gc.freeze()
