"""What every test shares. Servers are started by the folders that need them."""

from __future__ import annotations

import os

import pytest

from tests.skip_guard import SkipGuard, read_allowed


def pytest_configure(config: pytest.Config) -> None:
    """Watches for tests that do not run."""
    guard = SkipGuard(allowed=read_allowed(), strict=os.environ.get("CI") == "true")
    config.pluginmanager.register(guard, "skip-guard")
