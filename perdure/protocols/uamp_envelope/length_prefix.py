"""The WebSocket binding's frames: a length of four bytes, big-endian and without itself, then JSON.

Messages and frames need not coincide: a message may hold several frames, and a frame may span messages.
Source: UAMP envelope 1.0, section 7.
"""

from __future__ import annotations

from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.strict_json import MAX_ENVELOPE_BYTES

PREFIX_BYTES = 4
SUBPROTOCOL = "uamp.v1"
WEBSOCKET_PATH = "/uamp/1/ws"


def prefixed(data: bytes) -> bytes:
    """An envelope or delta as one frame."""
    return len(data).to_bytes(PREFIX_BYTES, "big") + data


class FrameReader:
    """Puts the frames of a connection together.

    Args:
        max_bytes: the greatest frame; what is held is never more than that and one message.
    """

    def __init__(self, max_bytes: int = MAX_ENVELOPE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()

    def feed(self, message: bytes) -> list[bytes]:
        """The frames that are complete with a message, oldest first.

        Raises:
            UAMPError: 4.13 as soon as a frame announces more than the limit; the connection is then of no more use.
        """
        self._held += message
        found: list[bytes] = []
        start = 0
        while len(self._held) - start >= PREFIX_BYTES:
            size = int.from_bytes(self._held[start : start + PREFIX_BYTES], "big")
            if size > self._max_bytes:
                raise UAMPError(
                    Code.TOO_LARGE, f"a frame of {size} bytes was announced; the limit is {self._max_bytes}"
                )
            end = start + PREFIX_BYTES + size
            if end > len(self._held):
                break
            found.append(bytes(self._held[start + PREFIX_BYTES : end]))
            start = end
        del self._held[:start]
        return found
