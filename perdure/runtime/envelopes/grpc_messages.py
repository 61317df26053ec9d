"""Messages of gRPC within a bound: the library itself believes a length of up to 4 GiB. Of both ends of a call."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

from google.protobuf.message import DecodeError

from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed

_PREFIX_BYTES = 5
_BEYOND_JSON = 1024  # of a message: its hints, media type and tags

M = TypeVar("M", bound="Readable")


class Readable(Protocol):
    """A message's type."""

    @classmethod
    def FromString(cls, data: bytes, /) -> Any:  # noqa: N802 protobuf's name
        """The message of its bytes."""
        ...


async def received(stream: object, kind: type[M], max_bytes: int) -> M | None:
    """The next message of a call; None at its end.

    Args:
        stream: the call, of grpclib's server or client.
        kind: of message.
        max_bytes: the greatest JSON in it.

    Raises:
        UAMPError: 4.13 it announces more; 4.15 it is compressed; 4.00 it is cut off or no such message.
    """
    inner = cast(Any, stream)._stream
    try:
        prefix: bytes = await inner.recv_data(_PREFIX_BYTES)
        if not prefix:
            return None
        size = int.from_bytes(prefix[1:], "big")
        if prefix[0]:
            raise UAMPError(Code.UNSUPPORTED, "a compressed message is not taken; compress the envelope's body instead")
        if size > max_bytes + _BEYOND_JSON:
            raise UAMPError(Code.TOO_LARGE, f"a message of {size} bytes was announced; the limit is {max_bytes}")
        data: bytes = await inner.recv_data(size)
    except AssertionError as error:  # that is how grpclib says that the call ended within a message
        raise malformed("the message is cut off") from error
    if len(data) != size:
        raise malformed("the message is cut off")
    try:
        return cast(M, kind.FromString(data))
    except DecodeError as error:
        raise malformed(f"the message is no {kind.__name__}") from error
