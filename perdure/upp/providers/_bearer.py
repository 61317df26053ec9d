"""The key of vendors whose wire other servers speak too."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from perdure.upp.keys import require_key, resolve_key
from perdure.upp.provider_config import ProviderConfig


async def bearer_key(config: ProviderConfig, own_url: str, variables: Sequence[str], provider: str) -> str | None:
    """Returns the key of one request, or None where a server that is not the vendor's own may need none.

    Raises:
        UPPError: AUTHENTICATION_FAILED if the vendor itself would be asked without one, or it cannot be had.
    """
    find = require_key if is_own_address(config.base_url, own_url) else resolve_key
    return await find(config.api_key, variables, provider)


def is_own_address(base_url: str | None, own_url: str) -> bool:
    """Returns whether an address is the vendor's own and not that of another, compatible server."""
    host, own = urlsplit(base_url or own_url).hostname or "", urlsplit(own_url).hostname or ""
    return host == own or host.endswith(f".{own}")
