"""The vendor on this machine, for the facts that need one."""

from tests.clients.conftest import vendor

__all__ = ["vendor"]
