"""What every test shares. Servers are started by the folders that need them."""

from __future__ import annotations

import asyncio
import gc
import os

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.scale import scaled
from tests.skip_guard import SkipGuard, read_allowed


def pytest_configure(config: pytest.Config) -> None:
    """Watches for tests that do not run."""
    guard = SkipGuard(allowed=read_allowed(), strict=os.environ.get("CI") == "true")
    config.pluginmanager.register(guard, "skip-guard")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as heavy the tests of files whose counts grow with the scale, and of properties: those of `make soak`."""
    for item in items:
        if isinstance(item, pytest.Function) and (
            hasattr(item.module, scaled.__name__) or is_hypothesis_test(item.obj)
        ):
            item.add_marker("heavy")


def pytest_collection_finish() -> None:
    """Keeps the garbage collector off the thousands of tests, or all that runs stands still for a second now and then."""
    gc.collect()
    gc.freeze()


# A machine that others use too makes an example slow, which says nothing of the code.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")

# Else asyncio makes a loop for whoever asks for the current one, which nobody closes.
asyncio.set_event_loop(None)
