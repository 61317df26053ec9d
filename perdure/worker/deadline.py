"""The end of a process, come what may."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from datetime import timedelta


def leave_after(patience: timedelta) -> None:
    """End the process after `patience` come what may: a tool's thread or a lost server must not keep it alive."""
    loop = asyncio.get_running_loop()
    loop.call_later(patience.total_seconds(), _leave)


def _leave() -> None:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
