"""A vendor on this machine, for what talks to one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.clients.vendor_server import VendorServer


@pytest.fixture
async def vendor() -> AsyncGenerator[VendorServer, None]:
    """A started server without replies."""
    async with VendorServer() as server:
        yield server
