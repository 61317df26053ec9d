"""Free ports on 127.0.0.1.

Ports are looked for below the kernel's ephemeral range (32768 and up): a port in that range can be taken by
any outgoing connection, even by a client that tries to reach the server that was there.
"""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager

HOST = "127.0.0.1"


@contextmanager
def reserved(port: int) -> Generator[bool]:
    """Tell whether `port` is free, and keep other Perdure processes off it inside the block.

    Two folders that start at once would both find the same port free. The loser would then mistake the
    winner's server for its own. An abstract socket is the mark that only one of them can set; it is gone
    with its process and has the same scope as the port, the network namespace.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mark:
        try:
            mark.bind(f"\0perdure-port-{port}")
        except OSError:
            yield False
            return
        yield _can_bind(port)


def answers(port: int) -> bool:
    """Tell whether anything accepts connections on `port`."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: connections in TIME_WAIT are no reason to move away.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
