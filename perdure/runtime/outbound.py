"""HTTP to addresses that somebody wrote into a setting or a document: what leads into a private network is refused.

The name is resolved here, every address it has is judged, and the connection goes to the judged address: a name that
changes its address in between gains nothing. Redirects are not followed, and proxies of the environment not used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TypeAlias

import httpx

from perdure.errors import InvalidInput, ServerUnavailable

Address: TypeAlias = IPv4Address | IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def check_url(url: str, what: str) -> httpx.URL:
    """An address to fetch from: https, or http on this machine.

    Args:
        url: as it was given.
        what: what it is, for the message.

    Raises:
        InvalidInput: it is another scheme, or has no host, or has a user or password in it.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidInput(f"{what} is no address: {error}") from None
    if parsed.userinfo or not parsed.host or parsed.fragment:
        raise InvalidInput(f"{what} must be https://HOST/PATH, without a user, a password or a fragment")
    if parsed.scheme != "https" and not (parsed.scheme == "http" and is_loopback_name(parsed.host)):
        raise InvalidInput(f"{what} must begin with https://; only on this machine (127.0.0.1) may it be http://")
    return parsed


def is_loopback_name(host: str) -> bool:
    """Whether a host, as a URL or a setting has it, names this machine by itself and no server of names can change it."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def is_public(address: Address) -> bool:
    """Whether an address is of the public internet, and does not lead to another address that is not."""
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if not all(is_public(inner) for inner in (address.sixtofour, *(address.teredo or ())) if inner is not None):
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def trusting(file: Path | None, variable: str) -> ssl.SSLContext:
    """What judges certificates of servers: the usual authorities, and those of a file.

    Args:
        file: PEM; None for the usual ones alone.
        variable: of the environment, that names the file: for messages.

    Raises:
        InvalidInput: the file cannot be read, or has no certificate.
    """
    context = httpx.create_ssl_context(trust_env=False)
    if file is not None:
        try:
            context.load_verify_locations(cafile=file)
        except OSError as error:  # ssl.SSLError is one
            raise InvalidInput(f"{file} ({variable}) cannot be used: {error.strerror or error}") from error
    return context


class OutboundTransport(httpx.AsyncHTTPTransport):
    """Connects to public addresses only; to this machine if the URL names it as such."""

    def __init__(self, *, allow_private: bool = False, trust: ssl.SSLContext | None = None) -> None:
        """Prepare connections.

        Args:
            allow_private: connect to private networks too.
            trust: judges the servers' certificates; None for the usual authorities.
        """
        super().__init__(verify=True if trust is None else trust, trust_env=False)
        self._allow_private = allow_private

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the judged address of its host.

        Raises:
            InvalidInput: the host's address is one that is refused.
            ServerUnavailable: the host has no address.
        """
        host = request.url.host
        address = await self._address(host, request.url.port or (443 if request.url.scheme == "https" else 80))
        request.url = request.url.copy_with(host=str(address))
        request.extensions = {**request.extensions, "sni_hostname": host}
        return await super().handle_async_request(request)

    async def _address(self, host: str, port: int) -> Address:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ServerUnavailable(f"{host} has no address: {error}") from error
        addresses = [ipaddress.ip_address(str(item[4][0]).partition("%")[0]) for item in found]
        for address in addresses:
            if not self._may(host, address):
                raise InvalidInput(f"{host} is at {address}, which is no public address; it is not connected to")
        return addresses[0]

    def _may(self, host: str, address: Address) -> bool:
        if is_loopback_name(host):
            return address.is_loopback
        return self._allow_private or is_public(address)


async def fetch(
    url: httpx.URL,
    *,
    max_bytes: int,
    allow_private: bool = False,
    trust: ssl.SSLContext | None = None,
    seconds: float = 5,
) -> bytes:
    """The body of a small document.

    Args:
        url: as `check_url` gave it.
        max_bytes: of a larger body nothing is used.
        allow_private: see `OutboundTransport`.
        trust: likewise.
        seconds: for all of it.

    Raises:
        InvalidInput: the host's address is refused.
        ServerUnavailable: it was not there in time, is too large, or is no 200.
    """
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    transport = OutboundTransport(allow_private=allow_private, trust=trust)
    try:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code != 200:
                raise ServerUnavailable(
                    f"{url} answered {response.status_code}; it must answer 200, without a redirect"
                )
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > max_bytes:
                    raise ServerUnavailable(f"{url} is larger than {max_bytes} bytes")
            return bytes(body)
    except (TimeoutError, httpx.HTTPError) as error:
        raise ServerUnavailable(f"{url} cannot be fetched: {str(error) or type(error).__name__}") from error
