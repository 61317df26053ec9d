"""How asking another agent fails besides the errors that the agent itself has signed."""

from __future__ import annotations

import re
import ssl
from datetime import timedelta

from perdure.errors import ServerUnavailable
from perdure.protocols.uamp_envelope.error import Code, UAMPError


class ConnectionBroken(ServerUnavailable):
    """The other agent's server was not there, or the connection to it broke: whether an envelope arrived is unknown.

    To send the same envelope again is harmless.
    """


class UntrustedServer(ServerUnavailable):
    """The TLS connection was refused by one of its ends: a certificate that is not trusted or missing, or TLS below 1.3.

    To try again changes nothing.
    """


class UnsignedError(UAMPError):
    """An error that nobody has signed: what the other side's server, or something in between, said.

    It is enough to stop or to wait for. It is not the agent's word: nothing follows from it about what the agent did.
    """

    def __str__(self) -> str:
        return f"the other side's server says {self.code}: {self.message}"

    @classmethod
    def of(cls, error: UAMPError) -> UnsignedError:
        """The same error, marked as unsigned."""
        return cls(error.code, error.message, retryable=error.retryable, retry_after=error.retry_after, ref=error.ref)

    @classmethod
    def of_status(cls, status: int, retry_after: timedelta | None = None) -> UnsignedError:
        """The error of an HTTP answer without an error object."""
        code = _CODES.get(status, Code.INTERNAL)
        return cls(code, f"the other agent's server answered with status {status}", retry_after=retry_after)


def connection_error(error: BaseException, url: str) -> ServerUnavailable:
    """How a failure of the network, or of TLS, is told."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UntrustedServer):
            return cause
        if isinstance(cause, ssl.SSLError) and _REFUSED.search(f"{cause.reason} {cause}"):
            return UntrustedServer(f"TLS with {url} was refused: {cause}")
        cause = cause.__cause__ or cause.__context__
    return ConnectionBroken(f"the connection to {url} broke: {str(error) or type(error).__name__}")


_REFUSED = re.compile("CERTIFICATE|PROTOCOL_VERSION|APPLICATION_PROTOCOL|UNKNOWN_CA|HOSTNAME_MISMATCH", re.IGNORECASE)
_CODES = {
    400: Code.MALFORMED,
    401: Code.UNAUTHENTICATED,
    403: Code.UNAUTHORIZED,
    404: Code.UNKNOWN_STREAM,
    409: Code.CONFLICT,
    410: Code.EXPIRED,
    413: Code.TOO_LARGE,
    415: Code.UNSUPPORTED,
    429: Code.RATE_LIMITED,
    503: Code.BUSY,
}
